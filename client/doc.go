// Package client calls a Writ server over REST. A Client has the verbs of the
// work item authority (operation.Jobs), so that a program can work with a server
// and with an authority in its own process in the same way: refusals are
// *workitem.Error with the server's code, field and outcome in both.
//
// A Client is for concurrent use. Calls that may be repeated without a second
// effect are repeated after failures of the connection and when the server says
// that it can't answer now; see Retry.
package client
