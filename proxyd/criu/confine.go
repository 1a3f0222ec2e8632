// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/landlock"
	"github.com/singularity-slurm/singularity-slurm/proxyd/procfs"
	"github.com/singularity-slurm/singularity-slurm/proxyd/tiles"
)

// At a dump criu parses data that the user's processes choose: names, numbers and sizes of mappings, descriptors,
// sockets. So at a dump criu has the rights that it needs to read other processes, and no more:
//
//	ids            the user's, so that criu owns no file of root's
//	capabilities   dumpCapabilities; also the bounding set, since no process of the job descends from
//	               this criu
//	system calls   all but refusedCalls; sockets of the node's kernel and of unix only
//	memory         dumpMemory, beyond the pages, which stay in pipes
//
// The kernel lets a process with a filter of its own look at no other process's filters
// (kernel/seccomp.c, seccomp_get_filter), so a program that uses seccomp is dumped without
// the list of refused calls.

// dumpCapabilities are the capabilities that CRIU needs to read other processes. CAP_DAC_READ_SEARCH is for inotify,
// which finds its files by handles, and for processes that the kernel calls not dumpable: their folders in /proc are
// root's.
var dumpCapabilities = []int{
	unix.CAP_DAC_READ_SEARCH, unix.CAP_KILL, unix.CAP_NET_ADMIN, unix.CAP_IPC_OWNER, unix.CAP_SYS_PTRACE,
	unix.CAP_SYS_ADMIN,
	unix.CAP_SYS_RESOURCE, unix.CAP_CHECKPOINT_RESTORE,
}

// dumpMemory is how much memory criu may have at a dump. A program with 65,000 mappings, the most
// that the kernel allows by default, takes less than a tenth of that.
const dumpMemory = 1 << 30

// freezeGroup is the group of the file by which criu freezes and thaws a program while criu dumps
// that program. No process but such a criu is in the group: the number is neither a person's nor
// of a range for containers.
const freezeGroup = 1<<32 - 256

// refusedCalls change the node, or make something at a path. A dump needs neither.
var refusedCalls = []uintptr{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE,
	unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_BPF,
	unix.SYS_PERF_EVENT_OPEN,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETTIMEOFDAY,
	unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_ACCT, unix.SYS_QUOTACTL,
	unix.SYS_SYSLOG, unix.SYS_VHANGUP,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_IO_URING_SETUP, unix.SYS_USERFAULTFD,
	unix.SYS_MKNODAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2,
	unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_FCHMODAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
	unix.SYS_FREMOVEXATTR,
}

// Offsets in struct seccomp_data.
const (
	dataCall = 0
	dataArch = 4
	dataArg0 = 16
)

// dumpFilter refuses refusedCalls and oldCalls with EPERM, and each call of another architecture.
func dumpFilter() []unix.SockFilter {
	const (
		load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		atLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		answer  = unix.BPF_RET | unix.BPF_K
	)
	refuse := unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	all := []unix.SockFilter{
		{Code: load, K: dataArch}, {Code: equal, K: nativeArch, Jt: 1}, refuse,
		{Code: load, K: dataCall}, {Code: atLeast, K: firstForeignCall, Jf: 1}, refuse,
	}
	for _, call := range append(refusedCalls, oldCalls...) {
		all = append(all, unix.SockFilter{Code: equal, K: uint32(call), Jf: 1}, refuse)
	}
	return append(all,
		unix.SockFilter{Code: equal, K: unix.SYS_SOCKET, Jf: 4},
		unix.SockFilter{Code: load, K: dataArg0},
		unix.SockFilter{Code: equal, K: unix.AF_UNIX, Jt: 2},
		unix.SockFilter{Code: equal, K: unix.AF_NETLINK, Jt: 1},
		refuse,
		unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW})
}

// startFiltered starts cmd with dumpFilter, which cmd's processes cannot remove.
func startFiltered(cmd *exec.Cmd) error {
	failed := make(chan error)
	go func() {
		// The thread has the filter from here on, and ends with this goroutine. Go starts no other
		// thread from a thread that is locked.
		runtime.LockOSThread()
		err := filterThread()
		if err == nil {
			err = cmd.Start()
		}
		failed <- err
	}()
	return <-failed
}

func filterThread() error {
	filter := dumpFilter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// usesSeccomp tells whether a thread of the program has a filter.
func usesSeccomp(p Program) (bool, error) {
	members, err := listMembers(p.Init)
	if err != nil {
		return false, err
	}
	for _, m := range findDescendants(members, []int{p.PID}) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", m.host))
		if err != nil {
			return false, err
		}
		for _, path := range threads {
			b, err := os.ReadFile(path)
			if err != nil {
				continue // the thread has ended
			}
			if bytes.Contains(b, []byte("\nSeccomp:")) && !bytes.Contains(b, []byte("\nSeccomp:\t0\n")) {
				return true, nil
			}
		}
	}
	return false, nil
}

// ErrNotNow is wrapped by the error of a dump that may succeed soon, when the program has run on.
var ErrNotNow = errors.New("the program cannot be dumped at this moment")

// refusedError names a process for which a program is not dumped.
type refusedError struct {
	part  Part
	still bool // until the process ends, as it probably does soon: ErrNotNow
}

func (e *refusedError) Error() string { return e.part.String() }

// Is implements the interface of errors.Is.
func (e *refusedError) Is(target error) bool { return e.still && target == ErrNotNow }

// refuseProcesses returns a refusedError if criu cannot dump a process of the program as the process is, and would not say
// so, or not in the user's words. The program stands still. Such a process
//
//   - has confined itself by Landlock, or has used AMX tiles, without which criu would restore the process;
//   - may not open as many files as criu's code in the process has to. sshd has such a process while a client logs in.
func refuseProcesses(p Program) error {
	confined, users := landlock.FindConfined(p.Init), tiles.FindUsers()
	members, err := listMembers(p.Init)
	if err != nil {
		return err
	}
	for _, m := range findDescendants(members, []int{p.PID}) {
		part := Part{PID: m.pid, Name: m.name, What: confined.Describe(m.host), Cure: CureConfined}
		if part.What == "" {
			part.What, part.Cure = users.Describe(m.host), CureTiles
		}
		if part.What != "" {
			return &refusedError{part: part}
		}
		if left := descriptorsLeft(m.host); left < neededDescriptors && !m.zombie {
			part.What, part.Cure = fmt.Sprintf("may open only %d more files (ulimit -n), and CRIU needs %d", left, neededDescriptors), ""
			return &refusedError{part: part, still: true}
		}
	}
	return nil
}

// neededDescriptors is how many files criu's code has open at a time in a process that is dumped.
const neededDescriptors = 4

// descriptorsLeft returns how many more descriptors a process may have, at most neededDescriptors. That is the result, too,
// for a process that has ended.
func descriptorsLeft(host int) int {
	// prlimit(2) would need CAP_SYS_RESOURCE for the process of another user.
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", host))
	if err != nil {
		return neededDescriptors
	}
	_, after, _ := bytes.Cut(limits, []byte("\nMax open files "))
	soft, _, _ := bytes.Cut(bytes.TrimLeft(after, " "), []byte(" "))
	left, err := strconv.Atoi(string(soft))
	if err != nil {
		return neededDescriptors // unlimited
	}
	limit := left
	for d, err := range procfs.Descriptors(host) {
		if err != nil {
			return neededDescriptors // the process has ended, or has too many: the dump reports that
		}
		if d.Number < limit {
			left--
		}
	}
	return min(left, neededDescriptors)
}

// lendFreezer lets a criu with freezeGroup freeze and thaw the cgroup.
func (c cgroup) lendFreezer() error {
	if c == "" {
		return nil
	}
	file := c.filePath("cgroup.freeze")
	if err := errors.Join(os.Chown(file, -1, freezeGroup), os.Chmod(file, 0o664)); err != nil {
		return fmt.Errorf("cgroup: %w", err)
	}
	return nil
}

// boundMemory are the arguments by which a command's memory is bounded, before the command.
func boundMemory() ([]string, error) {
	path, err := findProgram("prlimit")
	if err != nil {
		return nil, err
	}
	return []string{path, "--data=" + strconv.Itoa(dumpMemory), "--core=0", "--"}, nil
}
