package proc

import "errors"

var (
	// ErrStart is returned when the command could not be started at all: not
	// found, not executable, a directory that is not there. Nothing ran.
	ErrStart = errors.New("can't start the command")

	// ErrOutput is returned when Command.Stdout refused a write. The command was
	// killed, since nobody could have told what it did.
	ErrOutput = errors.New("can't store the output of the command")

	// ErrGuard is returned when the guard of a command could not be told of it. The
	// command was killed, but it had begun.
	ErrGuard = errors.New("the guard of the command has failed")

	// ErrUnkillable is returned when processes of the command survived SIGKILL
	// for as long as Run was ready to wait.
	ErrUnkillable = errors.New("processes of the command could not be ended")
)
