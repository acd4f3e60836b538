package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// oldest is the first version of PostgreSQL that will do.
const oldest = 15

// programs finds the directory that has initdb and postgres: on the path, where
// pg_config says, or where Debian and Homebrew put them.
func programs() (dir string, err error) {
	var dirs []string
	if p, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(p))
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		slices.Reverse(found) // the newest first
		dirs = append(dirs, found...)
	}
	err = errors.New("initdb and postgres are neither on the path nor where pg_config --bindir says")
	for _, dir := range dirs {
		if _, missing := os.Stat(filepath.Join(dir, "initdb")); missing != nil {
			continue
		}
		version, failed := major(filepath.Join(dir, "postgres"))
		switch {
		case failed != nil:
			err = failed
		case version < oldest:
			err = fmt.Errorf("%s has PostgreSQL %d; version %d or later is needed", dir, version, oldest)
		default:
			return dir, nil
		}
	}
	return "", err
}

var versionText = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

// major is the version of a postgres program.
func major(path string) (int, error) {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("%s --version: %w", path, err)
	}
	m := versionText.FindSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s --version says %q", path, out)
	}
	return strconv.Atoi(string(m[1]))
}
