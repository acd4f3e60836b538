package executor

import "errors"

// ErrConfig is returned for adapters that can't be made as they were configured.
var ErrConfig = errors.New("executor configuration")
