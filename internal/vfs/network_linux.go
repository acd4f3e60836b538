package vfs

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// remoteMagic are the statfs types that are remote whatever the mount says, as
// in statfs(2) and linux/magic.h.
var remoteMagic = map[uint32]string{
	0x00006969: "nfs",
	0x0000517b: "smb",
	0xff534d42: "cifs",
	0xfe534d42: "smb2",
	0x01021997: "9p",
	0x5346414f: "afs",
	0x6b414653: "afs",
	0x73757245: "coda",
	0x0000564c: "ncp",
	0x00c36400: "ceph",
	0x0bd00bd0: "lustre",
	0x01161970: "gfs2",
	0x7461636f: "ocfs2",
	0x47504653: "gpfs",
	0x19830326: "beegfs",
	0x786f4256: "vboxsf",
	0xbacbacbc: "vmhgfs",
}

// localMagic names the usual local types, for messages only.
var localMagic = map[uint32]string{
	0x0000ef53: "ext4",
	0x58465342: "xfs",
	0x9123683e: "btrfs",
	0x01021994: "tmpfs",
	0x858458f6: "ramfs",
	0x794c7630: "overlay",
	0x2fc12fc1: "zfs",
	0xf2f52010: "f2fs",
	0xca451a4e: "bcachefs",
	0x00004d44: "vfat",
	0x2011bab0: "exfat",
	0x7366746e: "ntfs",
}

const fuseMagic = 0x65735546

// remoteFuse are the FUSE types, as the mount table names them, whose files lie
// on another machine. virtiofs shares a host's files with a guest.
var remoteFuse = map[string]bool{
	"virtiofs": true, "fuse.sshfs": true, "fuse.rclone": true, "fuse.s3fs": true,
	"fuse.s3ql": true, "fuse.goofys": true, "fuse.mount-s3": true, "fuse.gcsfuse": true,
	"fuse.blobfuse": true, "fuse.blobfuse2": true, "fuse.glusterfs": true, "fuse.ceph": true,
	"fuse.ceph-fuse": true, "fuse.davfs": true, "fuse.davfs2": true, "fuse.curlftpfs": true,
	"fuse.smbnetfs": true, "fuse.juicefs": true, "fuse.seaweedfs": true, "fuse.moosefs": true,
	"fuse.mfs": true, "fuse.lizardfs": true, "fuse.saunafs": true, "fuse.grpcfuse": true,
	"fuse.osxfs": true, "fuse.vmhgfs-fuse": true, "fuse.cvmfs2": true, "fuse.google-drive-ocamlfuse": true,
	"fuse.nfs": true, "fuse.hdfs": true, "fuse.fuse_dfs": true, "fuse.alluxio": true,
	"fuse.gvfsd-fuse": true, "fuse.kio-fuse": true,
}

func network(path string) (string, bool, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(path, &st)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return "", false, pathError("statfs", path, err)
		}
	}
	magic := uint32(st.Type) // signed or wider on some machines
	if magic == fuseMagic {
		return fuseNetwork(path)
	}
	if kind, ok := remoteMagic[magic]; ok {
		return kind, true, nil
	}
	if kind, ok := localMagic[magic]; ok {
		return kind, false, nil
	}
	return fmt.Sprintf("%#x", magic), false, nil
}

// fuseNetwork asks the mount table which FUSE file system path lies on.
func fuseNetwork(path string) (string, bool, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", false, pathError("stat", path, err)
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	dev := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	kind := "fuse"
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if d, k := mountType(lines.Text()); d == dev {
			kind = k
		}
	}
	return kind, remoteFuse[kind], lines.Err()
}

// mountType returns device ("major:minor") and type of a mountinfo line, which
// is "id parent major:minor root mountpoint options optional... - type source
// superoptions" (proc(5)).
func mountType(line string) (dev, kind string) {
	before, after, ok := strings.Cut(line, " - ")
	if !ok {
		return "", ""
	}
	mount, super := strings.Fields(before), strings.Fields(after)
	if len(mount) < 3 || len(super) < 1 {
		return "", ""
	}
	return mount[2], super[0]
}
