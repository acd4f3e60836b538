package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/writ-authority/writ/cell"
	"github.com/writ-authority/writ/cell/store"
	"github.com/writ-authority/writ/hemera"
	"github.com/writ-authority/writ/internal/vfs"
)

// errNoCells is returned where there is no store of cells.
var errNoCells = errors.New("no cells here")

// cellFile is the name of the store of cells in a data directory.
const cellFile = "cells.db"

// cells is the store of cells as a command has opened it.
type cells struct {
	*cell.Engine
	store *store.Store
}

// withCells opens the store of cells, runs fn and closes it.
func (a *app) withCells(ctx context.Context, fn func(*cells) error) error {
	return a.onCells(ctx, false, fn)
}

// withNewCells is withCells for commands that make the store where there is none.
func (a *app) withNewCells(ctx context.Context, fn func(*cells) error) error {
	return a.onCells(ctx, true, fn)
}

func (a *app) onCells(ctx context.Context, create bool, fn func(*cells) error) (err error) {
	data, err := a.dataDir(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(data, cellFile)
	if create {
		if err := vfs.MkdirAll(vfs.OS, data, 0o700); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%w: %w", err, syscall.ENOTDIR)
		} else if err != nil {
			return err
		}
	} else if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s does not exist", errNoCells, path)
	} else if err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	s, err := store.Open(patience, store.Options{Path: path})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return fn(&cells{cell.New(s, cell.Options{Ward: cell.LocalWard{}}), s})
}

// leastPrefix is how many digits of a cell must be given.
const leastPrefix = 4

// find reads the name of a cell: its particle, or the beginning of it that no other
// cell has.
func (c *cells) find(ctx context.Context, name string) (cell.Particle, error) {
	if len(name) == 2*hemera.Size {
		return particleArgument("CELL", name)
	}
	if len(name) < leastPrefix || len(name) > 2*hemera.Size || strings.Trim(name, "0123456789abcdef") != "" {
		return cell.Particle{}, &usageError{fmt.Errorf("CELL %q: expected the particle of a cell, or at least its first %d hexadecimal digits", line(name), leastPrefix)}
	}
	// The greatest particle below all that begin so.
	var first cell.Particle
	if _, err := hex.Decode(first[:], []byte(name+strings.Repeat("0", 2*hemera.Size-len(name)))); err != nil {
		return cell.Particle{}, err
	}
	list, err := c.store.Cells(ctx, before(first), 2)
	if err != nil {
		return cell.Particle{}, err
	}
	var found []cell.Particle
	for _, h := range list {
		if strings.HasPrefix(h.Cell.String(), name) {
			found = append(found, h.Cell)
		}
	}
	switch len(found) {
	case 0:
		return cell.Particle{}, fmt.Errorf("%w: no cell begins with %s", cell.ErrMissing, name)
	case 1:
		return found[0], nil
	}
	return cell.Particle{}, &usageError{fmt.Errorf("CELL %q: several cells begin so, such as %v and %v", name, found[0], found[1])}
}

// before is the particle before p in the order of bytes, or p if it is the first.
func before(p cell.Particle) cell.Particle {
	if p == (cell.Particle{}) {
		return p
	}
	for i := len(p) - 1; ; i-- {
		p[i]--
		if p[i] != 0xff {
			return p
		}
	}
}

func particleArgument(name, text string) (cell.Particle, error) {
	p, err := hemera.ParseDigest(text)
	if err != nil {
		return cell.Particle{}, &usageError{fmt.Errorf("%s %q: expected a particle, 64 hexadecimal digits: %w", name, line(text), err)}
	}
	return p, nil
}

// nonceFlag reads 32 bytes in hexadecimal, or takes random ones.
func nonceFlag(text string) ([32]byte, error) {
	var nonce [32]byte
	if text == "" {
		_, err := rand.Read(nonce[:])
		return nonce, err
	}
	if len(text) != 64 {
		return nonce, &usageError{fmt.Errorf("--nonce: expected 64 hexadecimal digits, not %d characters", len(text))}
	}
	if _, err := hex.Decode(nonce[:], []byte(text)); err != nil {
		return nonce, &usageError{fmt.Errorf("--nonce: expected 64 hexadecimal digits: %w", err)}
	}
	return nonce, nil
}

// storePause is how long a command that follows leaves the store to others.
const storePause = 500 * time.Millisecond
