// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package capsule

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The time namespace that a process gives to its children belongs to a thread, and only the first
// thread's can be set and seen from outside. So the first process of a capsule stays on the
// thread that it starts with; other uses of the program do not.
func init() {
	if len(os.Args) > 1 && os.Args[1] == Arg {
		runtime.LockOSThread()
	}
}

// building lists the steps that make this process's namespaces into the capsule, top to bottom.
var building = []struct {
	name string
	do   func(Spec) error
}{
	{"host name", func(s Spec) error { return unix.Sethostname([]byte(s.Hostname)) }},
	{"mounts", mountAll},
	{"clocks", setClocks},
	{"loopback", func(Spec) error { return bringLinkUp("lo", "") }},
}

func buildRoot(s Spec) error {
	for _, step := range building {
		if err := step.do(s); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// finishRoot sets eth0 up, after the maker's Network has run.
func finishRoot(s Spec) error {
	if s.Address == "" {
		return nil
	}
	if err := bringLinkUp("eth0", s.Address); err != nil {
		return fmt.Errorf("eth0: %w", err)
	}
	return nil
}

// tree is a mounted tree that is not attached anywhere yet.
type tree struct {
	fd     int
	bind   Bind
	folder bool
}

// mountAll makes the capsule's view of the node's files. Sources are taken before any target is
// covered: a source may lie in the node's /tmp.
func mountAll(s Spec) error {
	// The node's later mounts appear here (an automounted home), this namespace's mounts never on the node.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	var trees []tree
	var binds []Bind
	for _, p := range private {
		binds = append(binds, Bind{Source: filepath.Join(s.Dir, p.name), Target: p.target})
	}
	if s.Hosts != nil {
		binds = append(binds, Bind{Source: filepath.Join(s.Dir, hostsName), Target: "/etc/hosts", ReadOnly: true})
	}
	if s.Containers != "" {
		binds = append(binds, Bind{Source: filepath.Join(s.Dir, containersName), Target: s.Containers})
	}
	for _, b := range append(binds, s.Binds...) {
		t, err := openTree(b)
		if err != nil {
			return err
		}
		trees = append(trees, t)
	}
	if err := mountFresh(); err != nil {
		return err
	}
	own := places{}
	for i, t := range trees {
		if i >= len(private) {
			if err := own.makeTarget(t.bind, t.folder); err != nil {
				return fmt.Errorf("%s: %w", t.bind.Target, err)
			}
		} else if err := t.forbidAsNode(t.bind.Target); err != nil {
			return err
		}
		if err := t.attachTree(); err != nil {
			return err
		}
		if i < len(private) {
			if err := own.addPlace(t.bind.Target); err != nil {
				return err
			}
		}
	}
	if s.Containers != "" {
		// A recursive bind must not include the containers: each container could have those that are there already.
		if err := unix.Mount("", s.Containers, "", unix.MS_UNBINDABLE, ""); err != nil {
			return fmt.Errorf("%s: make unbindable: %w", s.Containers, err)
		}
	}
	return nil
}

// mountFresh mounts the file systems that are each capsule's own and empty at first.
func mountFresh() error {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV
	for _, m := range []struct {
		kind, target string
		flags        uintptr
		data         string
	}{
		{"proc", "/proc", quiet | unix.MS_NOEXEC, ""},
		{"tmpfs", "/dev/shm", quiet, "mode=1777"},
		// Terminals have numbers of their own in each capsule. The options are the same as systemd and
		// container runtimes use; gid 5 is tty.
		{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5"},
		{"mqueue", "/dev/mqueue", quiet | unix.MS_NOEXEC, ""}, // of the IPC namespace
	} {
		forbidden, err := forbiddenAt(m.target)
		if err == nil {
			err = unix.Mount(m.kind, m.target, m.kind, m.flags|forbidden, m.data)
		}
		if m.kind == "mqueue" && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)) {
			continue // a node without message queues has none in its capsules
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.target, err)
		}
	}
	return nil
}

// forbiddenAt returns the node's restrictions in a folder, as flags of mount: nosuid, nodev and noexec. The mount that
// replaces the folder in a capsule has the same restrictions.
func forbiddenAt(path string) (uintptr, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, err
	}
	return uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC), nil // ST_ of statfs are the same
}

// forbidAsNode sets in a tree the restrictions that the node has at path, which the tree does not cover yet.
func (t tree) forbidAsNode(path string) error {
	flags, err := forbiddenAt(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var attr unix.MountAttr
	for _, f := range []struct {
		flag uintptr
		attr uint64
	}{{unix.MS_NOSUID, unix.MOUNT_ATTR_NOSUID}, {unix.MS_NODEV, unix.MOUNT_ATTR_NODEV}, {unix.MS_NOEXEC, unix.MOUNT_ATTR_NOEXEC}} {
		if flags&f.flag != 0 {
			attr.Attr_set |= f.attr
		}
	}
	if attr.Attr_set == 0 {
		return nil
	}
	if err := unix.MountSetattr(t.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("%s: forbid what the node forbids there: %w", path, err)
	}
	return nil
}

func openTree(b Bind) (tree, error) {
	fd, err := cloneTree(b.Source, 0)
	if err != nil {
		return tree{}, fmt.Errorf("%s: %w", b.Source, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return tree{}, fmt.Errorf("%s: %w", b.Source, err)
	}
	return tree{fd, b, st.Mode&unix.S_IFMT == unix.S_IFDIR}, nil
}

// cloneTree returns a copy of the mounts at and below path, attached nowhere.
func cloneTree(path string, flags uint) (int, error) {
	return unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|flags)
}

func (t tree) attachTree() error {
	defer unix.Close(t.fd)
	if err := attachClone(t.fd, t.bind.Target); err != nil {
		return fmt.Errorf("%s: %w", t.bind.Target, err)
	}
	if !t.bind.ReadOnly {
		return nil
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(t.fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("%s: make read-only: %w", t.bind.Target, err)
	}
	return nil
}

// attachClone attaches a tree that cloneTree returned.
func attachClone(fd int, target string) error {
	return unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS)
}

// bringLinkUp brings an interface up, with an address unless address is "".
func bringLinkUp(name, address string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if address != "" {
		addr, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			return err
		}
	}
	return netlink.LinkSetUp(link)
}

const offsetsPath = "/proc/self/timens_offsets"

// setClocks makes the time namespace of processes that join the capsule. This process stays in the node's time
// namespace: once a process has entered a namespace, its offsets cannot be changed.
func setClocks(s Spec) error {
	if _, err := os.Stat(offsetsPath); errors.Is(err, fs.ErrNotExist) && s.Clocks == nil {
		return nil // a kernel without time namespaces
	}
	if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
		return err
	}
	if s.Clocks == nil {
		return nil
	}
	now, err := readClocks()
	if err != nil {
		return err
	}
	line := func(clock string, d time.Duration) string {
		sec, nsec := d/time.Second, d%time.Second
		if nsec < 0 { // the kernel wants 0 ≤ nanoseconds
			sec, nsec = sec-1, nsec+time.Second
		}
		return fmt.Sprintf("%s %d %d\n", clock, sec, nsec)
	}
	offsets := line("monotonic", s.Clocks.Monotonic-now.Monotonic) + line("boottime", s.Clocks.Boottime-now.Boottime)
	return os.WriteFile(offsetsPath, []byte(offsets), 0)
}

func readClocks() (Clocks, error) {
	var mono, boot unix.Timespec
	err := errors.Join(unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono), unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot))
	return Clocks{time.Duration(mono.Nano()), time.Duration(boot.Nano())}, err
}

// capsuleClocks reads the clocks as processes that have joined the capsule see them.
func capsuleClocks() (*Clocks, error) {
	now, err := readClocks()
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(offsetsPath)
	if errors.Is(err, fs.ErrNotExist) {
		return &now, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		var clock string
		var sec, nsec time.Duration
		if _, err := fmt.Sscan(line, &clock, &sec, &nsec); err != nil {
			return nil, fmt.Errorf("%s: %w", offsetsPath, err)
		}
		switch offset := sec*time.Second + nsec; clock {
		case "monotonic":
			now.Monotonic += offset
		case "boottime":
			now.Boottime += offset
		}
	}
	return &now, nil
}
