// Package rest serves the operations of the work item authority over HTTP, below
// /v1. Its routes and its OpenAPI document are made from the table of
// server/operation; nothing else decides what a call is named or takes.
//
// Every answer is application/json, every refusal application/problem+json (RFC
// 9457) with the members code, field, retryable and request_id. No refusal shows a
// value of the request: only names of members. Section numbers in comments are
// those of the work item specification, version 1.
package rest
