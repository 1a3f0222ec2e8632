// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/landlock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/syscalls"
)

// Features of the kernel. Each probe needs root: for other users "missing" and "not permitted" look
// the same.
var (
	Namespaces     = Feature{Name: "namespaces", Probe: probeNamespaces}
	TimeNamespaces = Feature{Name: "time namespaces", Probe: func() error { return haveNamespace("time", "Linux 5.6 with CONFIG_TIME_NS") }}
	Pidfd          = Feature{Name: "pidfd", Probe: probePidfd}
	Openat2        = Feature{Name: "openat2", Probe: checkOpenat2}
	Fanotify       = Feature{Name: "fanotify", Probe: probeFanotify}
	Nftables       = Feature{Name: "nftables", Probe: probeNftables}
	Veth           = Feature{Name: "veth", Probe: func() error {
		return linkKind("CONFIG_VETH", &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, PeerName: "probe1"})
	}}
	VXLAN = Feature{Name: "vxlan", Probe: func() error {
		return linkKind("CONFIG_VXLAN", &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, VxlanId: 1, Port: 8472})
	}}
	Freezer   = Feature{Name: "cgroup v2 freezer", Probe: func() error { return groupHas("cgroup.freeze", "Linux 5.2 with CONFIG_CGROUPS") }}
	GroupKill = Feature{Name: "cgroup.kill", Probe: func() error { return groupHas("cgroup.kill", KernelNeeds) }}
)

// checkDeadlines checks that proxyd can read the deadlines of system calls that wait.
func checkDeadlines(context.Context, *node) Finding {
	f := Finding{Name: "kernel: deadlines", Needs: "BPF and BTF, so that a checkpoint does not interrupt sleeps and polls"}
	if err := syscalls.Prepare(); err != nil {
		return f.withProblem(Warn, err.Error(), "boot Linux 5.8 or newer with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_SYSCALL")
	}
	return f.withOK("can be read")
}

// checkLandlock checks that proxyd can see which processes have confined themselves by Landlock.
func checkLandlock(context.Context, *node) Finding {
	f := Finding{Name: "kernel: Landlock", Needs: "BPF and BTF, so that programs that have confined themselves are known"}
	there, err := landlock.Prepare()
	switch {
	case err != nil:
		return f.withProblem(Warn, err.Error()+": no program with no_new_privs is captured, and no container",
			"boot Linux with CONFIG_DEBUG_INFO_BTF and CONFIG_BPF_SYSCALL, or without landlock in lsm=")
	case !there:
		return f.withOK("the kernel has none")
	}
	return f.withOK("domains can be seen")
}

// Release returns the kernel's release, as uname -r prints it.
func Release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

func probeNamespaces() error {
	for _, kind := range []string{"mnt", "pid", "net", "uts", "ipc"} {
		if err := haveNamespace(kind, "a kernel with CONFIG_NAMESPACES and all kinds of them"); err != nil {
			return err
		}
	}
	return nil
}

func haveNamespace(kind, needs string) error {
	_, err := os.Lstat("/proc/self/ns/" + kind)
	if errors.Is(err, os.ErrNotExist) {
		return unsupportedByKernel(kind+" namespaces", needs)
	}
	return err
}

// unsupportedByKernel is a feature that this kernel lacks.
func unsupportedByKernel(feature, needs string) error {
	return &UnsupportedError{Feature: feature, Needs: needs, Found: "Linux " + Release()}
}

// missingFeature turns the errors of an unknown system call or flag into UnsupportedError.
func missingFeature(err error, feature, needs string, errnos ...error) error {
	for _, e := range append(errnos, unix.ENOSYS) {
		if errors.Is(err, e) {
			return unsupportedByKernel(feature, needs)
		}
	}
	return err
}

// probePidfd also asks for setns with a pidfd (5.8): proxyd uses the pidfd to join all namespaces
// of a capsule at once.
func probePidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return missingFeature(err, "pidfd", "Linux 5.8")
	}
	defer unix.Close(fd)
	// Joining the UTS namespace that this process is in already has no effect.
	answer := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		answer <- unix.Setns(fd, unix.CLONE_NEWUTS)
	}()
	return missingFeature(<-answer, "setns with a pidfd", "Linux 5.8", unix.EINVAL)
}

func checkOpenat2() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return missingFeature(err, "openat2", "Linux 5.6")
	}
	return unix.Close(fd)
}

func probeFanotify() error {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC, unix.O_RDONLY)
	if err != nil {
		return missingFeature(err, "fanotify", "a kernel with CONFIG_FANOTIFY")
	}
	return unix.Close(fd)
}

// probeNftables asks for the generation of the rules, which only reads, and loads the module.
func probeNftables() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return missingFeature(err, "nftables", "a kernel with CONFIG_NF_TABLES", unix.EPROTONOSUPPORT)
	}
	defer unix.Close(fd)
	tv := unix.Timeval{Sec: 2}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return err
	}
	const head = unix.SizeofNlMsghdr
	ask := make([]byte, head+4) // a header and a nfgenmsg of zeros
	order := binary.NativeEndian
	order.PutUint32(ask[0:], uint32(len(ask)))
	order.PutUint16(ask[4:], unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN)
	order.PutUint16(ask[6:], unix.NLM_F_REQUEST)
	if err := unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 8192)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	for errors.Is(err, unix.EINTR) { // a signal of Go's scheduler: with a time limit, the kernel does not begin the call again
		n, _, err = unix.Recvfrom(fd, answer, 0)
	}
	if err != nil {
		return err
	}
	if n >= head+4 && order.Uint16(answer[4:]) == unix.NLMSG_ERROR {
		errno := unix.Errno(-int32(order.Uint32(answer[head:])))
		return missingFeature(errno, "nftables", "a kernel with CONFIG_NF_TABLES", unix.EINVAL, unix.EOPNOTSUPP, unix.ENOENT)
	}
	return nil
}

// linkKind makes a device in a network namespace that goes with its thread.
func linkKind(needs string, link netlink.Link) error {
	answer := make(chan error, 1)
	go func() {
		// Never unlocked: the thread cannot be used for other goroutines, and ends with this one.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			answer <- err
			return
		}
		answer <- netlink.LinkAdd(link)
	}()
	return missingFeature(<-answer, link.Type()+" devices", "a kernel with "+needs, unix.EOPNOTSUPP)
}

// groupHas looks for a file in a new group in a mount of cgroup v2 that no other process sees:
// cgroup v2 need not be mounted anywhere, and its root has no freezer.
func groupHas(file, needs string) error {
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return missingFeature(err, "cgroup v2", needs, unix.ENODEV)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("cgroup v2: %w", err)
	}
	mount, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cgroup v2: mount: %w", err)
	}
	defer unix.Close(mount)
	group := "singularity-probe-" + rand.Text() // nodes that are containers share a kernel
	if err := unix.Mkdirat(mount, group, 0o755); err != nil {
		return fmt.Errorf("cgroup v2: make a group: %w", err)
	}
	defer unix.Unlinkat(mount, group, unix.AT_REMOVEDIR) //nolint:errcheck // empty and ours
	err = unix.Faccessat(mount, group+"/"+file, unix.F_OK, 0)
	return missingFeature(err, file, needs, unix.ENOENT)
}
