// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A mount of the host, target relative to its root.
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

// listMounts come in this order: a mount below another comes after that. /run, /tmp and /dev/shm
// are empty after each start, as on a machine that was switched on.
func listMounts(s Spec) []mount {
	const quiet = unix.MS_NOSUID | unix.MS_NODEV
	// Folders on the machine's disk get their flags in a second mount: a bind ignores flags. Root on
	// a host must not leave a way to root there for other users.
	const ownFlags = unix.MS_BIND | unix.MS_REMOUNT | quiet
	mounts := []mount{
		{"proc", "proc", "proc", quiet | unix.MS_NOEXEC, ""},
		{"sysfs", "sys", "sysfs", quiet | unix.MS_NOEXEC, ""},
		{"dev", "dev", "tmpfs", unix.MS_NOSUID, "mode=755"},
		{"devpts", "dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5"},
		{"shm", "dev/shm", "tmpfs", quiet, "mode=1777"},
		{"mqueue", "dev/mqueue", "mqueue", quiet | unix.MS_NOEXEC, ""},
		{"run", "run", "tmpfs", quiet, "mode=755"},
		{"tmp", "tmp", "tmpfs", quiet, "mode=1777"},
		{s.Shared, "shared", "", unix.MS_BIND, ""},
		{s.Shared, "shared", "", ownFlags, ""},
		{s.Logs, "var/log/slurm", "", unix.MS_BIND, ""},
		{s.Logs, "var/log/slurm", "", ownFlags, ""},
	}
	for name, folder := range s.Opt {
		mounts = append(mounts, mount{folder, "opt/" + name, "", unix.MS_BIND, ""},
			mount{folder, "opt/" + name, "", ownFlags | unix.MS_RDONLY, ""})
	}
	return mounts
}

// A device node of the host.
type device struct {
	name         string
	major, minor uint32
}

func listDevices(s Spec) []device {
	nodes := []device{
		{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9},
		{"tty", 5, 0}, {"fuse", 10, 229}, {"net/tun", 10, 200},
	}
	for i := range s.GPUs {
		// A file that Slurm can name in gres.conf and that takes every write.
		nodes = append(nodes, device{fmt.Sprintf("sgpu%d", i), 1, 3})
	}
	return nodes
}

var links = map[string]string{
	"ptmx": "pts/ptmx", "fd": "/proc/self/fd",
	"stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
}

// buildHost makes this process's namespaces into the host.
func buildHost(s Spec) error {
	unix.Umask(0)
	defer unix.Umask(0o022)
	// Mounts that are made here must not show up in the keeper's namespace.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	steps := []struct {
		name string
		do   func(Spec) error
	}{
		{"host name", func(s Spec) error { return unix.Sethostname([]byte(s.Name)) }},
		{"root", mountRoot},
		{"mounts", mountAll},
		{"devices", makeDevices},
		{"/etc/hostname", func(s Spec) error {
			return os.WriteFile(filepath.Join(s.Root, "etc/hostname"), []byte(s.Name+"\n"), 0o644)
		}},
		{"pivot_root", pivotRoot},
		{"network", setUpNetwork},
	}
	for _, step := range steps {
		if err := step.do(s); err != nil {
			return fmt.Errorf("host %s: %s: %w", s.Name, step.name, err)
		}
	}
	return nil
}

func mountRoot(s Spec) error {
	for _, d := range []string{s.Upper, s.Work, s.Root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return Overlay(s.Root, s.Lower, s.Upper, s.Work)
}

// Overlay mounts the layers at target, lower[0] uppermost, writes going to upper.
func Overlay(target string, lower []string, upper, work string) error {
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(lower, ":"), upper, work)
	if err := unix.Mount("overlay", target, "overlay", 0, data); err != nil {
		return fmt.Errorf("mount overlay at %s: %w", target, err)
	}
	return nil
}

func mountAll(s Spec) error {
	for _, m := range listMounts(s) {
		target := filepath.Join(s.Root, m.target)
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.source, target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	return nil
}

func makeDevices(s Spec) error {
	dev := filepath.Join(s.Root, "dev")
	for _, d := range listDevices(s) {
		path := filepath.Join(dev, d.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("mknod %s: %w", d.name, err)
		}
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(dev, name)); err != nil {
			return err
		}
	}
	return nil
}

// pivotRoot makes s.Root the root. CRIU needs this: in a chroot CRIU finds no parent for the
// root's mount point.
func pivotRoot(s Spec) error {
	if err := os.Chdir(s.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root now lies over the new root
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return os.Chdir("/")
}

func setUpNetwork(s Spec) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	eth0, err := netlink.LinkByName("eth0")
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(s.Addr)
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(eth0, addr); err != nil {
		return err
	}
	if len(s.Known) == 0 {
		return netlink.LinkSetUp(eth0)
	}
	if err := netlink.LinkSetHardwareAddr(eth0, macAddress(addr.IP)); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(eth0); err != nil {
		return err
	}
	return addNeighbors(eth0, s.Known)
}

// macAddress returns the MAC address of the host that has an IPv4 address.
func macAddress(ip net.IP) net.HardwareAddr {
	return append(net.HardwareAddr{2, 0}, ip.To4()...) // 2: assigned locally
}

// addNeighbors makes permanent entries for hosts in the kernel's table of neighbors.
func addNeighbors(link netlink.Link, addresses []string) error {
	for _, address := range addresses {
		ip := net.ParseIP(address)
		neighbor := netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: ip, HardwareAddr: macAddress(ip)}
		if err := netlink.NeighAdd(&neighbor); err != nil {
			return fmt.Errorf("neighbor %s: %w", address, err)
		}
	}
	return nil
}
