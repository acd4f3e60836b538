// Package storetest is the conformance suite of the work item authority: what every
// engine must do, whoever asks and however it is asked. It is written against
// operation.Jobs, so that it runs on a workitem.Caller in the process and on a client
// over REST alike; a Bundle adds what no caller has: the clock, the raw rows of the
// store, and closing and opening it again.
//
// Run has the behaviours, Model the comparison with a small model in memory, and
// Linear the check of concurrent histories.
//
// Section numbers in comments are those of the work item specification, version 1;
// testdata/lifecycle.json is a copy of its traces.
package storetest
