// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package mounts

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts/mountstest"
)

func TestParse(t *testing.T) {
	table, err := parseTable(strings.NewReader(`22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:20 / /dev/mqueue rw - mqueue mqueue rw
24 22 0:30 / /with\040space rw master:2 - fuse.sshfs host: rw,user_id=1001,group_id=1001,allow_other
25 22 0:31 / /cvmfs rw - fuse cvmfs2 rw,user_id=0,group_id=0,allow_other
26 22 0:30 / /bind rw - ext4 lies rw
28 22 0:32 / /empty rw - fuse  rw,user_id=1001,group_id=1001
nonsense
27 22 0:x / /x rw - tmpfs x rw
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := table.Points("fuse.sshfs"); len(got) != 1 || got[0] != "/with space" {
		t.Errorf("Points of fuse.sshfs = %q, want the point with a space", got)
	}
	if m, ok := table.ByNumber("23"); !ok || m.Kind != "mqueue" || m.Point != "/dev/mqueue" || m.Device != unix.Mkdev(0, 20) {
		t.Errorf("ByNumber of mount 23 = %+v, %v", m, ok)
	}
	if _, ok := table.ByNumber("27"); ok {
		t.Error("a mount without a device")
	}
	for device, want := range map[uint64]bool{
		unix.Mkdev(254, 0): true, unix.Mkdev(0, 20): true, unix.Mkdev(0, 30): false, unix.Mkdev(0, 31): true, unix.Mkdev(0, 99): false,
	} {
		if got := table.IsServedBySystem(File{Device: device}); got != want {
			t.Errorf("device %#x answers: %v, want %v", device, got, want)
		}
	}
	for path, want := range map[string]bool{"/with space": true, "/with space/x": true, "/with spaces": false, "/cvmfs/x": false, "/empty/x": true, "/": false} {
		if got := table.IsServedByUser(path); got != want {
			t.Errorf("%s is served by a user: %v, want %v", path, got, want)
		}
	}
	for mount, want := range map[string]bool{"22": true, "24": false, "25": true, "99": false} {
		if got := table.IsServedBySystem(File{Mount: mount, Device: 7}); got != want { // another device: btrfs
			t.Errorf("mount %s answers: %v, want %v", mount, got, want)
		}
	}
}

// TestStat: Stat and Fstat return the same data of local files as stat(2).
func TestStat(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, f := range []*os.File{file, null} {
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		want := File{Device: st.Dev, Inode: st.Ino, Mode: st.Mode, UID: st.Uid, GID: st.Gid, Rdev: st.Rdev, Links: uint32(st.Nlink)}
		got, err := Stat(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		want.Mount = got.Mount
		if err != nil || got != want {
			t.Errorf("Stat of %s = %+v, %v, want %+v", f.Name(), got, err, want)
		}
		if table, err := Of(os.Getpid()); err != nil || !table.IsServedBySystem(got) {
			t.Errorf("%s: on no mount: %+v %v", f.Name(), got, err)
		}
		if got, err := Fstat(int(f.Fd())); err != nil || got != want {
			t.Errorf("Fstat of %s = %+v, %v, want %+v", f.Name(), got, err, want)
		}
	}
}

// TestServerThatIsSilent: neither Of nor Stat waits for the server of a file system, which is known not to answer, also
// when the file system was unmounted.
func TestServerThatIsSilent(t *testing.T) {
	s := mountstest.Serve(t, 1001)
	fd := s.Open(t)
	s.Silence()
	look := func() *Table {
		t.Helper()
		table, err := Of(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		st, err := Stat(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil || st.Mode != unix.S_IFREG|0o666 || table.IsServedBySystem(st) {
			t.Errorf("Stat = %+v, %v, want a file of a server that does not answer", st, err)
		}
		return table
	}
	if table := look(); len(table.Points("fuse")) == 0 {
		t.Errorf("the FUSE mount at %s is not in the table of mounts", s.Folder)
	}
	if err := unix.Unmount(s.Folder, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	look()
}

// FuzzMount: whatever names a user gives to a mount of the user's server, the line that the kernel shows is one mount, of
// a file system that a user serves, and at that point.
func FuzzMount(f *testing.F) {
	f.Add("/with space", "host: - ext4 /dev/vda rw,user_id=0,", "sshfs")
	f.Add("/a\n22 1 254:0 / /b rw - ext4 /dev/vda rw\n", "", "")
	f.Add("/form\ffeed", "no-break\u00a0space", "vertical\vtab")
	f.Add(`/\040 - x`, ",user_id=0,", "\\")
	mangle := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`) // fs/proc_namespace.c
	f.Fuzz(func(t *testing.T, point, source, kind string) {
		if strings.ContainsRune(point+source+kind, 0) || len(point)+len(source)+len(kind) > 1<<16 {
			t.Skip() // no names
		}
		point = "/" + point
		line := fmt.Sprintf("24 22 0:30 / %s rw,nosuid master:2 - fuse.%s %s rw,user_id=1001,group_id=1001,allow_other\n",
			mangle.Replace(point), mangle.Replace(kind), mangle.Replace(source))
		table, err := parseTable(strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		m, ok := table.ByNumber("24")
		if !ok || m.Point != point || len(table.byNumber) != 1 {
			t.Errorf("%q is %+v, want one mount at %q", line, table.byNumber, point)
		}
		if table.IsServedBySystem(File{Mount: "24"}) || !table.IsServedByUser(point) {
			t.Errorf("%q counts as the system's", line)
		}
	})
}

// FuzzTable reads any text as a table.
func FuzzTable(f *testing.F) {
	f.Add([]byte("22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n23 22 0:20 / /m ro - fuse  rw,user_id=7\n"), "/m/a")
	f.Add([]byte(" - \n1 2 3:4 5 6 7 - 8 9 "), "")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		table, err := parseTable(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		for _, m := range table.byNumber {
			if m.served && table.IsServedBySystem(File{Mount: m.Number}) {
				t.Errorf("%+v counts as the system's", m)
			}
		}
		table.IsServedByUser(path)
	})
}
