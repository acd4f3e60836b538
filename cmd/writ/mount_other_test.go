//go:build !linux

package main_test

import "errors"

var errNoMount = errors.New("mounting in a test is only done on Linux")

func mountSmall(string, string) error { return errNoMount }

func mountReadOnly(string) error { return errNoMount }

func unmount(string) error { return errNoMount }
