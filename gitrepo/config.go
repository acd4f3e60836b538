package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Config returns the value that the user's configuration gives key ("section.name"), and false
// when it gives none.
func (r *Repo) Config(ctx context.Context, key string) (string, bool, error) {
	if !strings.Contains(key, ".") || strings.HasPrefix(key, "-") || strings.ContainsAny(key, "\x00\n") {
		return "", false, fmt.Errorf("configuration key %q: want section.name", key)
	}
	out, _, err := r.output(ctx, command{args: []string{"config", "-z", "--get", key}, plain: true})
	var ce *CommandError
	if errors.As(err, &ce) && ce.ExitCode == 1 && ce.Stderr == "" {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	value, ok := strings.CutSuffix(string(out), "\x00")
	if !ok {
		return "", false, fmt.Errorf("%w: answer of git config", ErrBadObject)
	}
	return value, true, nil
}

// identityConfig makes Git refuse to guess a name or an address from the machine.
var identityConfig = []string{"user.useConfigOnly=true"}

// Identity returns the name and e-mail address that Git would write as author of a commit, or
// ErrNoIdentity when the user has not set them.
func (r *Repo) Identity(ctx context.Context) (name, email string, err error) {
	out, _, err := r.output(ctx, command{args: []string{"var", "GIT_AUTHOR_IDENT"}, config: identityConfig})
	if err != nil {
		return "", "", identityError(err)
	}
	name, email, _, ok := parseIdent(strings.TrimSuffix(string(out), "\n"))
	if !ok {
		return "", "", fmt.Errorf("%w: answer of git var GIT_AUTHOR_IDENT", ErrBadObject)
	}
	return strings.ToValidUTF8(name, "\uFFFD"), strings.ToValidUTF8(email, "\uFFFD"), nil
}

// identityError turns git's complaint about a missing identity into ErrNoIdentity.
func identityError(err error) error {
	if stderrHas(err, "Please tell me who you are", "empty ident name", "consists only of disallowed characters") {
		return fmt.Errorf("%w (%w)", ErrNoIdentity, err)
	}
	return err
}
