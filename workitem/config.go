package workitem

import (
	"time"
)

// Config are the settings of an authority. The zero value is the default of each.
type Config struct {
	// Native hands jobs out in the order of section 10.3: bucket 0 first, no
	// priority inside a bucket, no turns of fairness groups. Otherwise larger
	// priorities are more urgent and groups take turns.
	Native bool
	// Unfair switches the turns of fairness groups off.
	Unfair bool
	// Weights is how many jobs a fairness group may have in its turn; 1 for a
	// group that is not named.
	Weights map[string]int
	// Quota is how many live leases a tenant may have, 1..4096; 0 is 64.
	Quota int
	// RetryBase is the delay before the first retry of a job that does not say;
	// nil is 30 s. RetryFloor is the least delay; nil is 1 s.
	RetryBase, RetryFloor *time.Duration
	// ConsentTTL is how long a new grant of consent lasts; 0 is without end.
	ConsentTTL time.Duration
	// Strict also enforces the rules that span members of a request (section 5.6).
	Strict bool
	// Sweep cancels jobs whose deadline has passed while they waited.
	Sweep bool
	// Observer is told what happens; nil is nobody.
	Observer Observer
}

const (
	defaultQuota      = 64
	maxQuota          = 4096
	defaultRetryBase  = 30 * time.Second
	defaultRetryFloor = time.Second
	defaultLease      = time.Hour
	maxLease          = 24 * time.Hour
	maxWait           = 60 * time.Second
	maxBackoff        = 24 * time.Hour
	defaultAttempts   = 3
	maxAttempts       = 100
	consentCooldown   = 300 * time.Second
	claimMemory       = 24 * time.Hour

	maxRequestBytes = 256 << 10
	maxRefBytes     = 2048
	maxWorkerBytes  = 256
	maxReasonBytes  = 512
	maxClaimRequest = 128
	maxListLimit    = 1000
	listLimit       = 100
	maxRetryChain   = 10
)

// check refuses settings outside their range and fills in defaults.
func (c Config) check() (Config, error) {
	if c.Quota == 0 {
		c.Quota = defaultQuota
	}
	if c.Quota < 1 || c.Quota > maxQuota {
		return c, invalid("max_tenant_in_flight", "must be 1 to 4096")
	}
	base, floor := defaultRetryBase, defaultRetryFloor
	if c.RetryBase != nil {
		base = *c.RetryBase
	}
	if c.RetryFloor != nil {
		floor = *c.RetryFloor
	}
	if base < 0 || base > maxBackoff {
		return c, invalid("retry.base_s", "must be 0 to 86400 seconds")
	}
	if floor < 0 || floor > maxBackoff {
		return c, invalid("retry.floor_s", "must be 0 to 86400 seconds")
	}
	if c.ConsentTTL < 0 {
		return c, invalid("consent.default_ttl", "must not be negative")
	}
	for _, w := range c.Weights {
		if w < 1 || w > 1000 {
			return c, invalid("claim.fairness.weights", "must be 1 to 1000 for every group")
		}
	}
	c.RetryBase, c.RetryFloor = &base, &floor
	if c.Observer == nil {
		c.Observer = silent{}
	}
	return c, nil
}

// weight is how many jobs a group may have in its turn.
func (c *Config) weight(group string) int {
	if w, ok := c.Weights[group]; ok {
		return w
	}
	return 1
}
