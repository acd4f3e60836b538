package bindb

import "github.com/writ-authority/writ/bindb/record"

// registry checks the Repositories (G05 to G14).
func (c *checker) registry() {
	f := Repositories.f
	if n := c.counts[f.no]; int(n) < len(record.ReservedRepositories) {
		c.bad(f, "G06", "has %d records, want at least the %d reserved ones", n, len(record.ReservedRepositories))
	}
	owners := map[record.Namespace]uint32{}
	var text record.RepositoryPayload
	scan(c, Repositories, func(i uint32, r *record.Repository) {
		named := c.payload(f, i, "payload_offset", RepositoryPayload, r.PayloadOffset, int(r.PayloadLen), &text, "F07")
		dead := r.Meta.Tombstoned()
		if int(i) < len(record.ReservedRepositories) {
			if want := record.ReservedRepositories[i]; named && text.Name != want {
				c.badField(f, i, "G07", "payload_offset", "gives the name %.60q, want %q", text.Name, want)
			}
			if dead {
				c.badField(f, i, "G08", "repository_meta", "is tombstoned, which a reserved Repository never is")
			}
		}
		if dead || r.Lifecycle == record.LifecyclePurged || r.Namespace == (record.Namespace{}) {
			return
		}
		if other, taken := owners[r.Namespace]; taken {
			c.badField(f, i, "G11", "namespace_ascii", "is %q, which the live Repository %d has too", r.Namespace, other)
		} else {
			owners[r.Namespace] = i
		}
	})
}
