// Command conformance is a server for the conformance suite of the Model Context
// Protocol. It is for tests and not shipped. It is the handler that writ serve has, and
// in it the tools, resources and prompts that the suite asks for by name, because the
// verbs of jobs have no images, questions to a user, or tasks that fail.
//
// The tests of this package run the suite against it, and what the suite can ask of any
// server against writ serve, if WRIT_MCP_SUITE names the directory into which the suite
// was installed (.ci/mcp, npm ci). What the suite may refuse, and why, is in
// conformance-baseline.yml, json-baseline.yml and shipped-baseline.yml.
package main
