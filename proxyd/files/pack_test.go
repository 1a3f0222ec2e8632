// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts/mountstest"
)

// fullFolder makes a folder with a file of each kind.
func fullFolder(t *testing.T) string {
	t.Helper()
	dir := ownFolder(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	must := func(errs ...error) {
		t.Helper()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	must(
		os.WriteFile(in("plain"), []byte("text"), 0o640),
		os.WriteFile(in("empty"), nil, 0o400),
		os.WriteFile(in("bad\xffname\n"), []byte("x"), 0o600),
		os.MkdirAll(in("a/b"), 0o755),
		os.WriteFile(in("a/b/deep"), bytes.Repeat([]byte("deep"), 1<<18), 0o600),
		os.Link(in("a/b/deep"), in("z-same")),
		os.Symlink("/etc/shadow", in("evil")),
		os.Symlink("loop", in("loop")),
		unix.Mkfifo(in("fifo"), 0o620),
		os.WriteFile(in("suid"), []byte("#!"), 0o755),
		os.Chmod(in("a"), 0o510|os.ModeSticky),
		unix.Setxattr(in("plain"), "user.note", []byte("with\x00zero"), 0),
		unix.Setxattr(in("plain"), "user.bad\xffname", []byte{0xff}, 0),
		unix.Setxattr(in("plain"), "system.posix_acl_access", aclOf(testUID+9), 0),
		unix.Setxattr(in("a"), "system.posix_acl_default", aclOf(testUID+9), 0),
		unix.Lsetxattr(in("plain"), "trusted.overlay.opaque", []byte("y"), 0),
	)
	sparse, err := os.Create(in("sparse"))
	must(err)
	_, err = sparse.WriteAt([]byte("end"), 1<<40)
	must(err, sparse.Close())
	l, err := net.Listen("unix", in("socket"))
	must(err)
	t.Cleanup(func() { l.Close() })
	must(os.Chmod(in("socket"), 0o660))
	for i, name := range []string{"plain", "a/b/deep", "evil", "a", "fifo", "suid"} {
		must(os.Lchown(in(name), testUID+i, testUID))
		times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: int64(1000 + i), Nsec: 123456789}}
		must(unix.UtimesNanoAt(unix.AT_FDCWD, in(name), times, unix.AT_SYMLINK_NOFOLLOW))
	}
	must(os.Chmod(in("suid"), 0o755|os.ModeSetuid))
	return dir
}

// aclOf returns an access control list as the kernel's attributes have it, by which a user may read.
func aclOf(uid int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 2) // the version
	for _, e := range []struct {
		tag, may uint16
		id       uint32
	}{{1, 6, ^uint32(0)}, {2, 4, uint32(uid)}, {4, 4, ^uint32(0)}, {16, 4, ^uint32(0)}, {32, 0, ^uint32(0)}} {
		b = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, e.tag), e.may), e.id)
	}
	return b
}

// TestPack: an unpacked folder equals the packed one, with holes, links and names.
func TestPack(t *testing.T) {
	dir := fullFolder(t)
	var b bytes.Buffer
	if err := Pack(testDeadline(t), dir, &b); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 8<<20 {
		t.Errorf("a pack of %d bytes: the hole was packed", b.Len())
	}
	again := ownFolder(t)
	if err := Unpack(testDeadline(t), bytes.NewReader(b.Bytes()), again); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, "sparse")) // a terabyte is not read
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(again, "sparse"), &st); err != nil || st.Size != 1<<40+3 || st.Blocks > 64 {
		t.Errorf("sparse: %d bytes in %d blocks, %v", st.Size, st.Blocks, err)
	}
	os.Remove(filepath.Join(again, "sparse"))
	if d := differentLines(describeTree(t, dir), describeTree(t, again)); d != "" {
		t.Errorf("the unpacked folder differs: %v", d)
	}
	v := make([]byte, 100)
	for _, of := range [][2]string{
		{"plain", "user.note"}, {"plain", "user.bad\xffname"}, {"plain", "system.posix_acl_access"}, {"a", "system.posix_acl_default"},
	} {
		want := make([]byte, 100)
		before, err := unix.Getxattr(filepath.Join(dir, of[0]), of[1], want)
		if err != nil {
			t.Fatal(err)
		}
		n, err := unix.Getxattr(filepath.Join(again, of[0]), of[1], v)
		if err != nil || !bytes.Equal(v[:n], want[:before]) {
			t.Errorf("%s: attribute %q = %q, %v; want %q", of[0], of[1], v[:max(n, 0)], err, want[:before])
		}
	}
	if _, err := unix.Getxattr(filepath.Join(again, "plain"), "trusted.overlay.opaque", v); err == nil {
		t.Error("an attribute that only root can set came out")
	}
	var second bytes.Buffer
	if err := Pack(testDeadline(t), again, &second); err != nil {
		t.Fatal(err)
	}
}

// forgePack makes a pack of entries.
func forgePack(entries []packEntry, data string) []byte {
	b := []byte(packMagic)
	for _, e := range entries {
		h, _ := json.Marshal(e)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(h)))
		b = append(b, h...)
		if len(e.Extents) > 0 {
			b = append(b, data...)
		}
	}
	return binary.LittleEndian.AppendUint32(b, 0)
}

// TestPackRefuses: Pack refuses, with its name, a file that Unpack would refuse: one with a path that no system call
// takes, or with more pieces than a header can list.
func TestPackRefuses(t *testing.T) {
	top := t.TempDir()
	fd, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("n", 200)
	for range 2000 {
		if err := unix.Mkdirat(fd, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	if err := Pack(t.Context(), top, io.Discard); !errors.Is(err, errPathTooLong) || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "nnn/nnn") {
		t.Errorf("Pack of deep folders: %.2000v", err)
	}

	p := &packer{ctx: t.Context(), w: bufio.NewWriter(io.Discard), buf: make([]byte, 1)}
	e := packEntry{Path: "pieces", Extents: make([][2]int64, maxHeader/5)}
	if err := p.writeHeader(e, nil); err == nil || !strings.Contains(err.Error(), "pieces with holes") {
		t.Errorf("writeHeader of a file with many pieces: %v", err)
	}
}

// TestPackMounted: a file system that is mounted below the folder is not packed, and its server is not asked.
func TestPackMounted(t *testing.T) {
	needRoot(t)
	server := mountstest.Serve(t, 1001)
	server.Silence()
	err := Pack(t.Context(), filepath.Dir(server.Folder), io.Discard)
	if !errors.Is(err, errMounted) || !strings.Contains(err.Error(), filepath.Base(server.Folder)+": a file system is mounted there") {
		t.Errorf("Pack of a folder with a mount: %v", err)
	}
}

// TestUnpackHostile: no entry of a pack leads out of the folder.
func TestUnpackHostile(t *testing.T) {
	needRoot(t)
	outside := ownFolder(t)
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("safe"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(p string) packEntry {
		return packEntry{Path: Name(p), Type: Regular, Mode: 0o644, Size: 4, Extents: [][2]int64{{0, 4}}}
	}
	for name, c := range map[string]struct {
		entries []packEntry
		want    string
	}{
		"dots":          {[]packEntry{file("../victim")}, "not in the folder"},
		"dots inside":   {[]packEntry{file("a/../../victim")}, "not in the folder"},
		"absolute":      {[]packEntry{file(victim)}, "not in the folder"},
		"through link":  {[]packEntry{{Path: "l", Type: Symlink, Target: Name(outside)}, file("l/victim")}, "too many levels"},
		"over link":     {[]packEntry{{Path: "l", Type: Symlink, Target: Name(victim)}, file("l")}, "file exists"},
		"link out":      {[]packEntry{{Path: "l", Link: "../victim"}}, "not in the folder"},
		"link via link": {[]packEntry{{Path: "d", Type: Symlink, Target: Name(outside)}, {Path: "l", Link: "d/victim"}}, "too many levels"},
		"not a folder":  {[]packEntry{file("f"), file("f/g")}, "not a directory"},
		"device":        {[]packEntry{{Path: "d", Type: Other, Mode: 0o666}}, "type"},
		"root a file":   {[]packEntry{file(".")}, "bad entry"},
		"attribute":     {[]packEntry{{Path: "f", Type: Regular, Xattrs: map[Name][]byte{"security.capability": {1}}}}, "attribute"},
		"huge extent":   {[]packEntry{{Path: "f", Type: Regular, Size: 4, Extents: [][2]int64{{0, 1 << 62}}}}, "bad extent"},
		"negative":      {[]packEntry{{Path: "f", Type: Regular, Size: 4, Extents: [][2]int64{{2, -1}}}}, "bad extent"},
		"overlapping":   {[]packEntry{{Path: "f", Type: Regular, Size: 9, Extents: [][2]int64{{0, 4}, {2, 4}}}}, "bad extent"},
		"cut off":       {[]packEntry{{Path: "f", Type: Regular, Size: 1 << 30, Extents: [][2]int64{{0, 1 << 30}}}}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Unpack(context.Background(), bytes.NewReader(forgePack(c.entries, "evil")), ownFolder(t))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Unpack of a hostile pack: %v, want %q", err, c.want)
			}
			if b, err := os.ReadFile(victim); err != nil || string(b) != "safe" {
				t.Fatalf("the file outside is %q, %v", b, err)
			}
		})
	}
	// A set-id program of root's loses its set-id bit.
	dir := ownFolder(t)
	suid := packEntry{Path: "s", Type: Regular, Mode: 0o4755, Size: 4, Extents: [][2]int64{{0, 4}}}
	if err := Unpack(context.Background(), bytes.NewReader(forgePack([]packEntry{suid}, "evil")), dir); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(dir, "s")); err != nil || st.Mode()&os.ModeSetuid != 0 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

// FuzzUnpack: any stream is unpacked into the folder, or refused.
func FuzzUnpack(f *testing.F) {
	f.Add(forgePack([]packEntry{{Path: ".", Type: Dir, Mode: 0o755}, {Path: "d", Type: Dir, Mode: 0o700}, {Path: "l", Type: Symlink, Target: ".."}}, ""))
	f.Add(forgePack([]packEntry{{Path: "f", Type: Regular, Size: 4, Extents: [][2]int64{{0, 4}}}, {Path: "g", Link: "f"}}, "data"))
	f.Add([]byte(packMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		dir := t.TempDir()
		inner := filepath.Join(dir, "in")
		if err := os.Mkdir(inner, 0o700); err != nil {
			t.Fatal(err)
		}
		_ = Unpack(context.Background(), bytes.NewReader(b), inner) // with any result
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Fatalf("beside the folder: %v, %v", left, err)
		}
	})
}
