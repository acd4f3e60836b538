package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// commitLimit bounds one commit object, in bytes.
const commitLimit = 16 << 20

// Commit is one commit. All texts are valid UTF-8: what the commit's encoding cannot explain is
// replaced by U+FFFD. Nothing in it is escaped for a terminal.
type Commit struct {
	ID      OID
	Tree    OID
	Parents []OID // as recorded, also where a shallow clone does not have them

	AuthorName  string
	AuthorEmail string
	AuthorTime  time.Time // the zero time when the object has no readable one
	CommitTime  time.Time

	Subject string // the first paragraph of the message, on one line
	Body    string // the rest, without the blank lines around it
}

// Commit reads one commit.
func (r *Repo) Commit(ctx context.Context, id OID) (*Commit, error) {
	commits, err := r.commits(ctx, []OID{id})
	if err != nil {
		return nil, err
	}
	return commits[0], nil
}

// commits reads commits in the order of ids.
func (r *Repo) commits(ctx context.Context, ids []OID) ([]*Commit, error) {
	if err := r.checkOID(ids...); err != nil {
		return nil, err
	}
	requests := make([]request, len(ids))
	for i, id := range ids {
		requests[i] = request{name: string(id), contents: true}
	}
	commits := make([]*Commit, len(ids))
	var foreign []*Commit // those that say they are in another encoding
	err := r.objects.ask(ctx, requests, func(i int, info objectInfo, body io.Reader) error {
		switch {
		case !info.found:
			return fmt.Errorf("%w: commit %s", ErrNoObject, ids[i])
		case info.kind != "commit":
			return fmt.Errorf("%w: %s is a %s, want a commit", ErrBadObject, ids[i], info.kind)
		case info.size > commitLimit:
			return fmt.Errorf("%w: commit %s has %d bytes", ErrTooLarge, ids[i], info.size)
		}
		raw := make([]byte, info.size)
		if _, err := io.ReadFull(body, raw); err != nil {
			return err
		}
		c, encoding, err := parseCommit(raw, r.hexLen())
		if err != nil {
			return fmt.Errorf("commit %s: %w", ids[i], err)
		}
		c.ID = ids[i]
		commits[i] = c
		if !isUTF8Name(encoding) {
			foreign = append(foreign, c)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(foreign) > 0 {
		if err := r.reencode(ctx, foreign); err != nil {
			return nil, err
		}
	}
	for _, c := range commits {
		for _, s := range []*string{&c.AuthorName, &c.AuthorEmail, &c.Subject, &c.Body} {
			*s = strings.ToValidUTF8(*s, "\uFFFD")
		}
	}
	return commits, nil
}

func isUTF8Name(encoding string) bool {
	switch strings.ToLower(encoding) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return true
	}
	return false
}

// reencode has git convert the texts of commits in other encodings; it knows all that iconv
// knows, and leaves bytes alone that it can't convert.
func (r *Repo) reencode(ctx context.Context, commits []*Commit) error {
	var ids strings.Builder
	byID := make(map[OID][]*Commit, len(commits))
	for _, c := range commits {
		if byID[c.ID] == nil {
			fmt.Fprintln(&ids, c.ID)
		}
		byID[c.ID] = append(byID[c.ID], c)
	}
	seen := 0
	_, err := r.run(ctx, command{
		args: []string{"log", "--no-walk=unsorted", "--stdin", "-z", "-s", "--no-color", "--no-decorate",
			"--no-notes", "--no-mailmap", "--encoding=UTF-8", "--format=tformat:%H%x00%an%x00%ae%x00%B"},
		stdin: strings.NewReader(ids.String()),
		read: func(out *bufio.Reader) error {
			for {
				var fields [4]string
				for i := range fields {
					s, err := out.ReadString(0)
					if err == io.EOF && i == 0 && s == "" {
						return nil
					}
					if err != nil {
						return fmt.Errorf("%w: answer of git log: %w", ErrBadObject, err)
					}
					fields[i] = strings.TrimSuffix(s, "\x00")
				}
				same := byID[OID(fields[0])]
				if same == nil {
					return fmt.Errorf("%w: git log answered for %q", ErrBadObject, fields[0])
				}
				seen++
				for _, c := range same {
					c.AuthorName, c.AuthorEmail = fields[1], fields[2]
					c.Subject, c.Body = splitMessage(fields[3])
				}
			}
		},
	})
	if err != nil {
		return err
	}
	if seen != len(byID) {
		return fmt.Errorf("%w: git log answered for %d of %d commits", ErrBadObject, seen, len(byID))
	}
	return nil
}

// parseCommit reads a commit object. It insists on the tree and the parents, which decide what
// the commit is, and takes any author line and message.
func parseCommit(raw []byte, hexLen int) (*Commit, string, error) {
	c := new(Commit)
	encoding := ""
	rest := raw
	for n := 0; ; n++ {
		line, after, ok := bytes.Cut(rest, []byte{'\n'})
		if !ok {
			if len(rest) != 0 {
				return nil, "", fmt.Errorf("%w: header line without an end", ErrBadObject)
			}
			break // a commit without a message may end with its headers
		}
		rest = after
		if len(line) == 0 {
			break
		}
		key, value, _ := strings.Cut(string(line), " ")
		switch {
		case n == 0:
			if key != "tree" || len(value) != hexLen || !isHex(value) {
				return nil, "", fmt.Errorf("%w: the first line does not name a tree", ErrBadObject)
			}
			c.Tree = OID(value)
		case key == "parent":
			if len(value) != hexLen || !isHex(value) {
				return nil, "", fmt.Errorf("%w: parent line %d", ErrBadObject, len(c.Parents)+1)
			}
			c.Parents = append(c.Parents, OID(value))
		case key == "author":
			c.AuthorName, c.AuthorEmail, c.AuthorTime, _ = parseIdent(value)
		case key == "committer":
			_, _, c.CommitTime, _ = parseIdent(value)
		case key == "encoding":
			encoding = value
		}
	}
	if c.Tree == "" {
		return nil, "", fmt.Errorf("%w: no tree line", ErrBadObject)
	}
	c.Subject, c.Body = splitMessage(string(rest))
	return c, encoding, nil
}

// parseIdent reads "Name <address> seconds zone". ok is false when a part is missing; the parts
// found are returned all the same.
func parseIdent(s string) (name, email string, at time.Time, ok bool) {
	open := strings.IndexByte(s, '<')
	end := strings.LastIndexByte(s, '>')
	if open < 0 || end < open {
		return strings.TrimSpace(s), "", time.Time{}, false
	}
	name, email = strings.TrimSpace(s[:open]), s[open+1:end]
	fields := strings.Fields(s[end+1:])
	if len(fields) == 0 {
		return name, email, time.Time{}, false
	}
	seconds, err := strconv.ParseInt(fields[0], 10, 64)
	// Years beyond 9999 have no form in most formats, JSON among them.
	if err != nil || seconds < 0 || seconds > 253402300799 {
		return name, email, time.Time{}, false
	}
	zone := time.UTC
	if len(fields) > 1 && len(fields[1]) == 5 {
		if n, err := strconv.Atoi(fields[1]); err == nil && n > -2400 && n < 2400 {
			zone = time.FixedZone(fields[1], (n/100*60+n%100)*60)
		}
	}
	return name, email, time.Unix(seconds, 0).In(zone), true
}

// splitMessage splits a message as Git does: the subject is the first paragraph on one line.
func splitMessage(message string) (subject, body string) {
	lines := strings.Split(message, "\n")
	i := 0
	for i < len(lines) && strings.TrimSpace(lines[i]) == "" {
		i++
	}
	var first []string
	for i < len(lines) && strings.TrimSpace(lines[i]) != "" {
		first = append(first, strings.TrimSpace(lines[i]))
		i++
	}
	for i < len(lines) && strings.TrimSpace(lines[i]) == "" {
		i++
	}
	return strings.Join(first, " "), strings.TrimRight(strings.Join(lines[i:], "\n"), " \t\r\n")
}

// Range returns the commits that head has and base has not, parents before children, at most
// limit of them: the oldest. more reports that there are others. An empty base means all
// ancestors of head and head itself. It is ErrShallow when the range reaches the point where a
// shallow clone is cut off.
func (r *Repo) Range(ctx context.Context, base, head OID, limit int) (commits []*Commit, more bool, err error) {
	if limit < 1 {
		return nil, false, fmt.Errorf("limit of a range is %d, want at least 1", limit)
	}
	args := []string{"rev-list", "--topo-order", "--reverse", string(head)}
	if err := r.checkOID(head); err != nil {
		return nil, false, err
	}
	if base != "" {
		if err := r.checkOID(base); err != nil {
			return nil, false, err
		}
		args = append(args, "^"+string(base))
	}
	cut, err := r.boundary()
	if err != nil {
		return nil, false, err
	}
	var ids []OID
	err = r.revList(ctx, args, func(id OID) error {
		if cut[id] {
			return fmt.Errorf("%w (the history ends at commit %s)", ErrShallow, id)
		}
		if len(ids) < limit {
			ids = append(ids, id)
			return nil
		}
		more = true
		if len(cut) > 0 {
			return nil // the rest may still reach the cut
		}
		return errStop
	})
	if err != nil {
		return nil, false, err
	}
	commits, err = r.commits(ctx, ids)
	return commits, more, err
}

// revList runs a rev-list command that prints one object id a line.
func (r *Repo) revList(ctx context.Context, args []string, each func(OID) error) error {
	_, err := r.run(ctx, command{args: args, read: func(out *bufio.Reader) error {
		for {
			line, err := out.ReadString('\n')
			if err == io.EOF && line == "" {
				return nil
			}
			if err != nil {
				return err
			}
			id := OID(strings.TrimSuffix(line, "\n"))
			if r.checkOID(id) != nil {
				return fmt.Errorf("%w: answer of git rev-list: %q", ErrBadObject, line)
			}
			if err := each(id); err != nil {
				return err
			}
		}
	}})
	if stderrHas(err, "bad object") {
		return fmt.Errorf("%w: %w", ErrNoObject, err)
	}
	return err
}

// CommitSpec is what CommitTree writes.
type CommitSpec struct {
	Tree    OID
	Parents []OID
	Message string // UTF-8; a line feed is added at the end if there is none
}

// CommitTree writes a commit object with author and committer from Git's configuration and
// returns its id. No ref moves. Errors: ErrNoIdentity, ErrEmptyMessage.
func (r *Repo) CommitTree(ctx context.Context, spec CommitSpec) (OID, error) {
	id, err := r.commitTree(ctx, spec)
	if err != nil {
		return "", err
	}
	return id, r.syncLoose(id)
}

func (r *Repo) commitTree(ctx context.Context, spec CommitSpec) (OID, error) {
	if err := r.checkOID(spec.Tree); err != nil {
		return "", err
	}
	if err := r.checkOID(spec.Parents...); err != nil {
		return "", err
	}
	if strings.TrimSpace(spec.Message) == "" {
		return "", ErrEmptyMessage
	}
	if !utf8.ValidString(spec.Message) || strings.ContainsRune(spec.Message, 0) {
		return "", errors.New("the commit message is not UTF-8 text without NUL bytes")
	}
	args := []string{"commit-tree"}
	for _, p := range spec.Parents {
		args = append(args, "-p", string(p))
	}
	id, err := r.oidOutput(ctx, command{
		args:   append(args, "-F", "-", string(spec.Tree)),
		config: append([]string{"i18n.commitEncoding=UTF-8"}, identityConfig...),
		stdin:  strings.NewReader(spec.Message),
	})
	return id, identityError(missingObject(err))
}

// oidOutput runs a command whose whole answer is one object id.
func (r *Repo) oidOutput(ctx context.Context, c command) (OID, error) {
	out, _, err := r.output(ctx, c)
	if err != nil {
		return "", err
	}
	id := OID(strings.TrimSuffix(string(out), "\n"))
	if r.checkOID(id) != nil {
		return "", fmt.Errorf("%w: answer of git %s: %q", ErrBadObject, c.args[0], out)
	}
	return id, nil
}
