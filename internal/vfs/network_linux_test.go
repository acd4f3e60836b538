package vfs

import "testing"

func TestMountType(t *testing.T) {
	t.Parallel()
	cases := []struct {
		line, dev, kind string
		remote          bool
	}{
		{"36 35 0:52 / /mnt/x rw,noatime shared:1 - fuse.sshfs u@h:/ rw,user_id=0", "0:52", "fuse.sshfs", true},
		{"36 35 0:53 / /mnt/a\\040-\\040b rw - fuse.gocryptfs /home/u/c rw", "0:53", "fuse.gocryptfs", false},
		{"22 1 0:54 / /w rw shared:1 master:2 - virtiofs host rw", "0:54", "virtiofs", true},
		{"22 1 8:2 / / rw", "", "", false},
		{"22 - ext4", "", "", false},
		{"", "", "", false},
	}
	for _, c := range cases {
		dev, kind := mountType(c.line)
		if dev != c.dev || kind != c.kind || remoteFuse[kind] != c.remote {
			t.Errorf("mountType(%q) is %q, %q", c.line, dev, kind)
		}
	}
}
