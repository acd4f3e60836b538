// Package cli is the command line of Writ: one file a noun, tables for people and
// JSON for programs, one table of exit codes.
package cli
