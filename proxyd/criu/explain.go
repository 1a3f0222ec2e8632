// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	osuser "os/user"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/mounts"
)

// Cures of obstacles: what a user can do so that a program can be captured. Package processes looks for most of these
// obstacles while a job runs, and names the same cures.
const (
	CureTerminal   = "start it with its input from /dev/null, or below script or tmux"
	CureURing      = "switch io_uring off in the program"
	CureCounters   = "run the program without its profiler"
	CureBPF        = "run the program without its tracer"
	CurePageFaults = "switch that off in the program"
	CureMachine    = "end the virtual machine, or have it emulate the processor"
	CureRDMA       = "have MPI use TCP: UCX_TLS=tcp,self,sm or FI_PROVIDER=tcp"
	CureGPU        = "ask the site for devices.kind: cuda in proxyd.yaml"
	CureFUSE       = "unmount the file system before a checkpoint"
	CureConfined   = "run the program without its sandbox"
	CureTiles      = "have the program do without AMX (oneDNN: ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16)"
	CureContainer  = "have Slurm start the container: sbatch --container or srun --container"
	CureSegment    = "have a single task start both programs"
	CurePeer       = "have a single task start both programs, or have them connect by TCP"
	CureLinkedFile = "have it close the file, or keep the name by which it was opened; in /tmp and /dev/shm that is no matter"
	CureDebugger   = "end the debugger or tracer"
	CureWatch      = "switch the watching of files off in the program, or have it watch a folder of another file system"

	CureOutsideTracer = "wait until that has ended, or ask the node's administrator to end it"
)

// Cures that only rules of this file have.
const (
	cureClose   = "have it close that before a checkpoint"
	cureAccept  = "it can be captured when the connection is accepted"
	curePutBack = "put the file back as it was at the checkpoint, or, if the file is the node's, have the job run on a node that has the same"
	cureNode    = "have the job run on a node like that of its checkpoint"
)

// obstacleRule translates a complaint of CRIU.
type obstacleRule struct {
	pattern string
	text    string // $1 and $2 are the pattern's groups; WHO is the process that criu was at
	cure    string // what the user can do; "" where nothing helps, or where the text says all
	end     end
}

// end says how an obstacle ends.
type end int

const (
	lasts    end = iota // by what the user does
	endsSoon            // by itself, probably soon (ErrNotNow)
	ofNode              // by the node's administrator, or when the node has room: the obstacle is no part of the program
)

// obstacles translate complaints of CRIU about a part of a program that cannot be dumped or restored into a text for
// the user. The first rule that matches any of the errors is taken; the most particular rules come first.
var obstacles = []obstacleRule{
	// Terminals.
	{`file (\d+) of that type .* is (/dev/(?:pts/\d+|tty\S*|console))`, "WHO holds a terminal ($2)", CureTerminal, lasts},
	{`Found dangling tty with sid \d+ pgid \d+ \((\S+)\)`, "WHO holds a terminal ($1)", CureTerminal, lasts},
	{`tty: ctty inheritance detected sid/pgrp (\d+)`, "the terminal of session $1, opened as /dev/tty, is open in a process that has another terminal or none", "have that process close /dev/tty when it leaves the session", lasts},
	{`tty: .*(No task found with sid|external peer|Found slave peer)`, "WHO holds a terminal", CureTerminal, lasts},
	{`Unable to find a tty driver`, "WHO holds a terminal", CureTerminal, lasts},
	{`queued data overflow`, "WHO holds a terminal with unread input", "have it read its input, or start it with input from a file", lasts},

	// Kernel objects that cannot be read back.
	{`anon_inode:\[io_uring\]|io_uring`, "WHO uses io_uring", CureURing, lasts},
	{`anon_inode:\[perf_event\]`, "WHO holds a performance counter (perf_event)", CureCounters, lasts},
	{`anon_inode:kvm|/dev/kvm`, "WHO runs a virtual machine (/dev/kvm)", CureMachine, lasts},
	{`anon_inode:\[userfaultfd\]`, "WHO uses userfaultfd", CurePageFaults, lasts},
	{`anon_inode:\[fscontext\]|anon_inode:\[landlock`, "WHO holds a kernel object that cannot be dumped", cureClose, lasts},
	{`anon_inode:bpf-(map|prog|link)|anon_inode:bpf_link`, "WHO holds a BPF $1", CureBPF, lasts},
	{`(/dev/infiniband/[^\s)]+|anon_inode:\[infinibandevent\])`, "WHO uses RDMA ($1)", CureRDMA, lasts},
	{`(/dev/nvidia[^\s)]*|/dev/dri/[^\s)]*|/dev/kfd)`, "WHO holds a GPU ($1) that is not the job's virtual one", CureGPU, lasts},
	{`(/dev/fuse)`, "WHO serves a FUSE file system", CureFUSE, lasts},
	{`file (\d+) of that type .* is (/dev/\S+)`, "WHO has the device $2 open (descriptor $1)", cureClose, lasts},
	{`file (\d+) of that type .* is (.+)`, "WHO has something open that cannot be dumped: $2 (descriptor $1)", cureClose, lasts},
	{`file (\d+) of that type \[\d+\] \((.*)\)`, "WHO has something open that cannot be dumped: $2 (descriptor $1)", cureClose, lasts},
	{`Can't handle non-regular mapping on (\d+)'s map`, "WHO has a device mapped", "have it unmap the device before a checkpoint", lasts},
	{`Unable to connect a transport socket: Operation not permitted`, "WHO has forbidden itself to connect to sockets (Landlock)", CureConfined, lasts},
	{`Can't poke \d+ @ `, "WHO runs code in shared memory", "link the program dynamically: then it is given what CRIU needs there", lasts},
	{`PIDFD_THREAD`, "WHO holds a pidfd of a thread", cureClose, lasts},
	{`pidfd pid (\d+) is not a part of process tree`, "WHO holds a pidfd of process $1, which is not the program's", cureClose, lasts},
	{`PID (\d+) has uprobes`, "WHO is being traced (uprobes)", CureDebugger, lasts},

	// Connections.
	{`MPTCP|multipathtcp|Unsupported proto (?:132|262)`, "WHO uses a protocol that cannot be dumped (MPTCP or SCTP)", "have it use TCP; for a Go program set GODEBUG=multipathtcp=0", lasts},
	{`Unsupported proto (\d+)|Only stream, dgram and raw are supported`, "WHO has a socket of a protocol that cannot be dumped", "have it use TCP or UDP", lasts},
	{`unix: .*Dangling connection`, "WHO is connected to a unix socket outside the program, where the connection is not accepted yet", cureAccept, endsSoon},
	{`In-flight connection \(l\)`, "WHO has a connection that it has not accepted yet", cureAccept, endsSoon},
	{`unix: .*(In-flight|in-flight)`, "WHO has a connection to a unix socket that is not accepted yet", cureAccept, endsSoon},
	{`External socket is used|name-less external socket`, "WHO is connected to a unix socket of a process outside the program", CurePeer, lasts},
	{`Can't dump half of stream unix connection\. name: .*; peer name: (\S+)`, "WHO is connected to a unix socket outside the program ($1)", CurePeer, lasts},
	{`unix: (?:Unix socket \d+ not found|Unix socket \d+ without peer|Unix socket \d+ with unreachable peer|Can't dump half)`, "WHO is connected to a unix socket outside the program", CurePeer, lasts},
	{`inet: .*[Cc]orked`, "WHO is in the middle of a datagram (UDP_CORK)", "have it send the datagram before a checkpoint", lasts},
	{`packet: |packet socket`, "WHO captures network packets", "run it without the capture of packets", lasts},
	{`netlink: .*(Can't|The socket has data|queue)`, "WHO is in the middle of asking the kernel about the network (netlink)", "have it read the kernel's answer before a checkpoint", lasts},
	{`SysVIPC shmem map|SysVIPC`, "WHO uses System V shared memory of another program", CureSegment, lasts},

	// Files.
	{`Can't dump ghost file (\S+) of (\d+) size`, "WHO has a removed file of $2 bytes open ($1); " + ghostLimit + " is the most", "have it close the file, or remove the file only when it has closed the file", lasts},
	{`Can't create link remap for (\S+)\. Use link-remap`, "WHO has $1 open, which was removed but has another name", CureLinkedFile, lasts},
	{`Can't lookup mount=\S+ for fd=(\d+) path=(.*)$`, "WHO has $2 open from outside the capsule (descriptor $1)", "have it open the file by a path that the job sees", lasts},
	{`Open files on overmounted mounts .* fd=(\d+) path=(.*)$`, "WHO has $2 open, which is hidden by a mount (descriptor $1)", "unmount what hides the file, or have it close the file", lasts},
	{`Unaccessible path opened`, "WHO has a file open whose path shows another one now", cureClose, lasts},
	{`The path \[(.*)\] is not supported`, "WHO has $1 open", cureClose, lasts},
	{`packetized mode for pipes`, "WHO has a pipe with O_DIRECT", "have it make the pipe without O_DIRECT", lasts},
	{`Can't find suitable path for handle|Can't dump that handle|Unable to lookup a mount by dev`, "WHO watches a file that cannot be found again (inotify)", CureWatch, lasts},
	{`Unresolved lock found pid (\d+)`, "WHO holds a file lock that cannot be found", "have it give the lock back before a checkpoint", lasts},
	{`file-lock.*(ease|reak)`, "WHO holds a file lease that is being broken", "have it give the lease back before a checkpoint", lasts},
	{`Couldn't unlink remap (\S+)\.cr\.\w+\.ghost: (.*)$`, "the removed file $1 cannot be made again: $2", "", lasts},
	{`Can't create ghost \w+: (.*)$`, "a removed file cannot be made again: $1", "", lasts},
	{`Can't open fake fifo \S+ \[(\S+)\]: (.*)$`, "file /$1: $2", curePutBack, lasts},
	{`Can't bind id \S+ ino \d+ addr (\S+): (.*)$`, "the socket $1 cannot be made again: $2", "", lasts},
	{`Can't open file (\S+) on restore: (.*)$`, "file /$1: $2", curePutBack, lasts},
	{`File (\S+) has bad size (\d+) \(expect (\d+)\)`, "file /$1 has $2 bytes and had $3 when it was dumped", curePutBack, lasts},
	{`File (\S+) has bad build-ID`, "file /$1 is another version than when it was dumped", curePutBack, lasts},
	{`File (\S+) has bad mode (\S+) \(expect (\S+)\)`, "the permissions of file /$1 have changed", "give the file the permissions that it had", lasts},

	// Processes.
	{`Unseizable non-zombie (\d+) found, state t`, "process $1 is run by a debugger", CureDebugger, lasts},
	// In a frozen cgroup criu takes each process that it cannot seize for a zombie.
	{`zombie (\d+) \(comm (.*)\) found while seizing`, "process $1 ($2) is run by a debugger, or its main thread has ended while others run", "end the debugger, or have the main thread wait for the others (pthread_join)", lasts},
	{`Unable to attach to.*|(?:PTRACE_SEIZE|Unable to interrupt).*Operation not permitted|is (?:already )?traced by|Unexpected error for pid (\d+)`, "WHO is run by a debugger", CureDebugger, lasts},
	{`Can't dump nested (\S+) namespace for (\d+)`, "process $2 is in a $1 namespace of its own (a container in the program)", CureContainer, lasts},
	{`doesn't live in (\S+) ns`, "WHO is in a namespace of its own (a container in the program)", CureContainer, lasts},
	{`Zombie thread not supported|Zombies with threads`, "WHO has a main thread that has ended while others run", "have the main thread wait for the others (pthread_join)", lasts},
	{`Individually stopped threads`, "WHO has threads that are stopped one by one", CureDebugger, lasts},
	{`session leader of .*is outside of its pid namespace|A session leader of (\d+)\(\d+\) is outside`, "WHO belongs to a session outside the program", "start it below setsid", lasts},
	{`Timeout reached|Unable to freeze cgroup`, "the program cannot be stopped: one of its processes does not leave a system call (a hanging file system?)", "wait until the file system answers, or end that process", lasts},
	{`Can't get rlimit`, "the limits of WHO cannot be read: the user is not the one that was given", "", ofNode},
	{`Pid (\d+) do(?:es)? not match expected|Unable to fork for (\d+): File exists|Can't fork for (\d+): File exists`, "the PID $1$2$3 is taken in the capsule", "", ofNode},
	{`Can't fork for \d+: Resource temporarily unavailable`, "the limit of processes is reached", "", ofNode},
	{`vdso: .*`, "the kernels are too different (vdso)", cureNode, ofNode},
	{`rseq: can't restore`, "the kernel has no restartable sequences", cureNode, ofNode},
	{`(?:cpu: |x86: ).*(?:not supported|missing|required)`, "the CPU lacks features that it had when it was dumped", cureNode, ofNode},
	{`No space left on device`, "no space left on device", "", ofNode},
	{`Cannot allocate memory|Out of memory`, "not enough memory", "", ofNode},
}

var compiled = func() []*regexp.Regexp {
	all := make([]*regexp.Regexp, len(obstacles))
	for i, o := range obstacles {
		all[i] = regexp.MustCompile(o.pattern)
	}
	return all
}()

// Part is a part of a program that cannot be captured or restored.
type Part struct {
	PID  int    // of the process in the capsule; 0: not known, or What names the process
	Name string // of the process
	What string // what the process is or has, as in "uses io_uring"; with PID 0 a whole sentence
	Cure string // what the user can do about it; "": nothing is known
}

func (p Part) String() string {
	if p.PID == 0 {
		return p.What
	}
	return nameProcess(p.PID, func(int) string { return p.Name }) + " " + p.What
}

// explanation is what a rule says of criu's complaints.
type explanation struct {
	part Part
	end  end
}

// explainComplaints says in a user's words why criu complained; false if no rule matches. name returns the name of a
// process, "" if it is not known.
func explainComplaints(complaints []complaint, name func(pid int) string) (explanation, bool) {
	for i, o := range obstacles {
		for _, c := range complaints {
			m := compiled[i].FindStringSubmatchIndex(c.text)
			if m == nil {
				continue
			}
			said := string(compiled[i].ExpandString(nil, strings.ReplaceAll(o.text, "WHO", "\x00"), c.text, m))
			part := Part{Cure: o.cure}
			if what, ok := strings.CutPrefix(said, "\x00 "); ok && c.pid != 0 && !strings.Contains(what, "\x00") {
				part.PID, part.Name, part.What = c.pid, name(c.pid), what
			} else {
				part.What = strings.ReplaceAll(said, "\x00", nameProcess(c.pid, name))
			}
			return explanation{part, o.end}, true
		}
	}
	return explanation{}, false
}

func nameProcess(pid int, name func(int) string) string {
	if pid == 0 {
		return "a process"
	}
	if n := name(pid); n != "" {
		return fmt.Sprintf("process %d (%s)", pid, n)
	}
	return "process " + strconv.Itoa(pid)
}

// hiddenDescriptors are descriptors on which a dump fails without CRIU naming them: the kernel does not let its parasite send
// them.
var hiddenDescriptors = []struct{ link, what, cure string }{
	{"anon_inode:[io_uring]", "uses io_uring", CureURing},
}

// numberOnly is a complaint that names a descriptor by its number alone.
var numberOnly = regexp.MustCompile(`^Can't dump file (\d+) of that type`)

// addLink adds the target of a descriptor's link to a complaint that only tells the descriptor's number.
func (c complaint) addLink(members map[int]member) complaint {
	m := numberOnly.FindStringSubmatch(c.text)
	if m == nil {
		return c
	}
	if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", members[c.pid].host, m[1])); err == nil {
		c.text += " is " + link
	}
	return c
}

// findHidden looks for descriptors in the list hiddenDescriptors in a tree that could not be dumped; nil if there is none.
func findHidden(members map[int]member, root int) *Part {
	for _, m := range findDescendants(members, []int{root}) {
		dir := fmt.Sprintf("/proc/%d/fd/", m.host)
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue // the process has ended
		}
		for _, fd := range fds {
			link, err := os.Readlink(dir + fd.Name())
			if err != nil {
				continue
			}
			for _, s := range hiddenDescriptors {
				if link == s.link {
					return &Part{PID: m.pid, Name: m.name, What: s.what, Cure: s.cure}
				}
			}
		}
	}
	return nil
}

// ChangedError names a file, and a property of it that has changed since the dump.
type ChangedError struct {
	Path string
	What string
}

func (e *ChangedError) Error() string { return e.Path + ": " + e.What }

// changedPath looks for the reason why criu could not open a file: it returns the first change found in the files that
// the program had, by their paths, or nil. It follows no link.
func (i *Image) changedPath(init int) error {
	root, err := os.Open(fmt.Sprintf("/proc/%d/root", init))
	if err != nil {
		return nil //nolint:nilerr // it only improves the message
	}
	defer root.Close()
	table, err := mounts.Of(init)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	for _, o := range i.Opened {
		if table.IsServedByUser(o.Path) || strings.HasSuffix(o.Path, removed) || !strings.HasPrefix(o.Path, "/") || strings.HasPrefix(o.Path, "/proc/") || strings.HasPrefix(o.Path, "/sys/") {
			continue
		}
		how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
		fd, err := unix.Openat2(int(root.Fd()), cmp.Or(strings.TrimPrefix(o.Path, "/"), "."), how)
		if errors.Is(err, unix.ELOOP) {
			return &ChangedError{o.Path, "there is a link in its path, which was not there at the checkpoint"}
		}
		if err != nil {
			continue
		}
		st, err := mounts.Fstat(fd)
		unix.Close(fd)
		if err != nil {
			continue
		}
		now := OpenedFile{Path: o.Path, UID: st.UID, GID: st.GID, Mode: st.Mode, Rdev: o.Rdev}
		if err := o.compareFile(now); err != nil {
			return err
		}
	}
	return nil
}

func userName(uid uint32) string {
	id := strconv.Itoa(int(uid))
	if u, err := osuser.LookupId(id); err == nil {
		return u.Username
	}
	return cmp.Or(map[uint32]string{0: "root"}[uid], "user "+id)
}

func groupName(gid uint32) string {
	id := strconv.Itoa(int(gid))
	if g, err := osuser.LookupGroupId(id); err == nil {
		return g.Name
	}
	return cmp.Or(map[uint32]string{0: "root"}[gid], id)
}
