// Package server runs the work item authority for others: one HTTP server on a TCP
// address and on a unix socket, with authentication (server/auth), the verbs
// (server/rest), logs, metrics, traces and health.
//
// What it promises:
//
//   - Nobody is anonymous, except at /healthz and /readyz.
//   - A listener that is not on a loopback address speaks TLS, unless the caller
//     has said that something else protects it; development tokens are taken on a
//     loopback address only.
//   - Every queue has a bound: requests at once, requests at once of one
//     connection, connections, headers, bodies, and the time for each.
//   - When it is told to stop, it takes no new requests, ends long polls, and
//     finishes what runs. Leases stay: a worker goes on with the next server.
//   - No log line, metric or span shows a value of a request or names a tenant.
//
// Section numbers are those of the work item specification, version 1.
package server
