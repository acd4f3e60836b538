package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/writ-authority/writ/internal/vfs"
)

const (
	schema       = "writ.data-backup.v1"
	manifestFile = "manifest.json"
	// maxManifest bounds manifest.json, in bytes. A repository takes some 8 KiB.
	maxManifest = 512 << 20

	jobsFile     = "work.db"
	cellsFile    = "cells.db"
	authorityDir = "authority"
)

// Manifest says what a backup is of, and has every other file of it.
type Manifest struct {
	Schema    string     `json:"schema"`
	Version   string     `json:"version"`    // of the program that made it
	CreatedAt string     `json:"created_at"` // when it was begun
	Jobs      *Jobs      `json:"jobs,omitempty"`
	Cells     *Cells     `json:"cells,omitempty"`
	Authority *Authority `json:"authority,omitempty"`
	Bytes     int64      `json:"bytes"` // of all files
	Files     []File     `json:"files"` // sorted by path
	// Digest is the SHA-256 of this document with an empty digest.
	Digest string `json:"digest"`
}

// Jobs are the work items of a backup.
type Jobs struct {
	Schema int64 `json:"schema_version"`
	Epoch  int64 `json:"epoch"`
	Jobs   int   `json:"jobs"`
}

// Cells is the store of cells of a backup.
type Cells struct {
	Schema int64 `json:"schema_version"`
}

// Authority are the Binary DB files of a backup.
type Authority struct {
	Installation string `json:"installation"`
	Generation   uint64 `json:"generation"`
	Epoch        uint64 `json:"epoch"`
	Repositories int    `json:"repositories"`
}

// File is one file of a backup.
type File struct {
	Path   string `json:"path"` // below the backup, with slashes
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// encode gives the text of manifest.json, with its digest.
func (m *Manifest) encode() ([]byte, error) {
	m.Digest = ""
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	m.Digest = hex.EncodeToString(sum[:])
	b, err = json.MarshalIndent(m, "", "  ")
	return append(b, '\n'), err
}

// readManifest reads manifest.json. Every byte of it is as encode writes it.
func readManifest(dir string) (*Manifest, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: there is no such directory", ErrNoBackup)
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%w: expected a directory with %s", ErrNoBackup, manifestFile)
	}
	raw, err := vfs.ReadFile(vfs.OS, filepath.Join(dir, manifestFile), maxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: expected %s in it", ErrNoBackup, manifestFile)
	}
	if err != nil {
		return nil, err
	}
	m := &Manifest{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, manifestFile, err)
	}
	if name, ok := strings.CutPrefix(m.Schema, "writ.data-backup."); ok && m.Schema != schema {
		return nil, fmt.Errorf("%w: %s has the schema %q", ErrNewer, manifestFile, name)
	}
	text, err := m.encode()
	if err != nil {
		return nil, err
	}
	if m.Schema != schema || !bytes.Equal(text, raw) {
		return nil, fmt.Errorf("%w: %s is not as it was written", ErrDamaged, manifestFile)
	}
	return m, nil
}

// list finds every file below a directory but the manifest.
func list(dir string) (paths []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if name = filepath.ToSlash(name); name != manifestFile {
			paths = append(paths, name)
		}
		return nil
	})
	slices.Sort(paths)
	return paths, err
}

// hashFile reads a file of a backup and gives its entry in the manifest.
func hashFile(ctx context.Context, dir, path string, to io.Writer, c *counter) (File, error) {
	f, err := vfs.OS.OpenFile(filepath.Join(dir, filepath.FromSlash(path)), os.O_RDONLY, 0)
	if err != nil {
		return File{}, err
	}
	sum := sha256.New()
	out := io.Writer(sum)
	if to != nil {
		out = io.MultiWriter(sum, to)
	}
	entry := File{Path: path}
	buf := make([]byte, 1<<20)
	for {
		if err = ctx.Err(); err != nil {
			break
		}
		var n int
		n, err = f.ReadAt(buf, entry.Size)
		if _, werr := out.Write(buf[:n]); werr != nil {
			err = werr
			break
		}
		entry.Size += int64(n)
		c.add(int64(n))
		if errors.Is(err, io.EOF) {
			err = nil
			break
		}
		if err != nil {
			break
		}
	}
	entry.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return entry, errors.Join(err, f.Close())
}

// counter adds up the bytes of a long piece of work.
type counter struct {
	done, total int64
	tell        func(done, total int64)
}

func (c *counter) add(n int64) {
	c.done += n
	if c.tell != nil {
		c.tell(min(c.done, c.total), c.total)
	}
}
