// Package proc runs one command so that nothing of it outlives the call.
//
// A command gets a process group of its own, /dev/null or given bytes as standard
// input and one pipe for both outputs, or one for each. Run returns only when
//
//   - the process that was started has ended and is reaped,
//   - no living process of its group is left: what it leaves behind is killed,
//     also after an end of its own accord,
//   - on Linux, no process of the same user that inherited the environment of
//     the command is left, even if it has moved to another group or session (it
//     is recognised by the mark WRIT_RUN in its environment), and
//   - its output was delivered. Whoever still holds a pipe after all that (a
//     process of another user, one that cleared its environment and its session)
//     delays the call by a bounded time only.
//
// Nor does it outlive the program that called Run, if there is a Guard: a small
// process that ends the groups of a program which has died.
//
// A process that the kernel refuses to end, for instance one that waits for a
// dead network file system, makes Run return ErrUnkillable instead of waiting
// for ever.
package proc
