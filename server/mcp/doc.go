// Package mcp offers the verbs of the work item authority as tools of the Model
// Context Protocol, and jobs and their graphs as resources. It promises:
//
//   - Tools are made from server/operation. Their arguments are one flat object, read
//     as strictly as a request body; their structured content is the body with which
//     REST answers the same call, and the schemas are those of the OpenAPI document
//     with every reference resolved.
//   - A refusal is a tool result marked as an error, whose text is the body with which
//     REST refuses: the same code, field and outcome. It has no structured content,
//     since clients hold that against the schema of the answer.
//   - For a client that declares the tasks extension, a job is a task (decision W11): it
//     is the answer to job_submit, and tasks/get, tasks/update and tasks/cancel are the
//     methods to follow it.
//   - Nothing is kept between two requests over HTTP: a server that was started again,
//     or another one, goes on with every client.
//   - Every request over HTTP needs the credential that REST needs. Requests from web
//     pages of other origins, and such that reach a loopback listener under another
//     name, are refused before the credential is looked at.
//
// Section numbers are those of the work item specification, version 1; section 17 has
// the tools.
package mcp
