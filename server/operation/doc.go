// Package operation is the one table of what the work item authority can be asked
// to do. Its rows name each verb, where REST puts it, which scope it needs, and
// how tools should present it; REST and the Go client are made from it.
package operation
