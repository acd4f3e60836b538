package vfs_test

import "errors"

var errNoMount = errors.New("mounting in a test is only done on Linux")

func mountReadOnly(string) error { return errNoMount }

func mountSmall(string) error { return errNoMount }
