// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// At a restore criu opens, makes, binds and removes files at paths that the job's user can change: a link of the user's
// would lead root to any file. So criu runs with the user's ids, and keeps of root's capabilities only those on which
// no access to a file depends. criu may not open a file for the user's program that the user may not open.
//
// Two rules of CRIU matter here. With CAP_SETUID criu would make itself uid 0 again before opening
// files (prepare_userns_creds in criu/namespaces.c), and uid 0 owns root's
// files whatever its capabilities are: so CAP_SETUID is not kept, and a process with other user ids
// than the job's cannot be restored. And no capability is taken from the bounding set, which
// restored processes inherit: programs that are set-user-ID must go on to work.

// rights are the rights of criu for a user's program.
type rights struct {
	uid, gid uint32
	groups   []uint32
	keep     []int // capabilities
	bounded  bool  // limit the bounding set to keep, too
}

// restoreCapabilities are the capabilities that CRIU needs to make processes again. The capabilities that let a process
// access files against owner and mode are missing here: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,
// CAP_FSETID, CAP_MKNOD, CAP_LINUX_IMMUTABLE, CAP_LEASE, CAP_MAC_OVERRIDE, CAP_SETFCAP; and CAP_SETUID.
var restoreCapabilities = []int{
	unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_NET_BROADCAST,
	unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_IPC_LOCK, unix.CAP_IPC_OWNER, unix.CAP_SYS_CHROOT,
	unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_SYS_NICE, unix.CAP_SYS_RESOURCE, unix.CAP_SYS_TTY_CONFIG,
	unix.CAP_AUDIT_CONTROL, unix.CAP_WAKE_ALARM, unix.CAP_CHECKPOINT_RESTORE,
}

// setprivArguments are the arguments of setpriv, without its "--". Capabilities that this process lacks are left out.
func (r *rights) setprivArguments() ([]string, error) {
	permitted, err := permittedCapabilities()
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, c := range r.keep {
		if permitted&(1<<c) != 0 {
			kept = append(kept, "+cap_"+strconv.Itoa(c))
		}
	}
	groups := make([]string, len(r.groups))
	for i, g := range r.groups {
		groups[i] = strconv.Itoa(int(g))
	}
	args := []string{"--reuid", strconv.Itoa(int(r.uid)), "--regid", strconv.Itoa(int(r.gid))}
	if len(groups) == 0 {
		args = append(args, "--clear-groups")
	} else {
		args = append(args, "--groups", strings.Join(groups, ","))
	}
	list := "-all," + strings.Join(kept, ",")
	if r.bounded {
		args = append(args, "--bounding-set", list)
	}
	return append(args, "--inh-caps", list, "--ambient-caps", list), nil
}

// permittedCapabilities returns the capabilities of this process, as a set of bits.
func permittedCapabilities() (uint64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "CapPrm:"); ok {
			return strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		}
	}
	return 0, fmt.Errorf("/proc/self/status says nothing of capabilities")
}

// readSupplementaryGroups returns the supplementary groups of the root of a program.
func readSupplementaryGroups(p Program) ([]uint32, error) {
	members, err := listMembers(p.Init)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", members[p.PID].host))
	if err != nil {
		return nil, err
	}
	groups := []uint32{}
	for line := range strings.Lines(string(b)) {
		value, ok := strings.CutPrefix(line, "Groups:")
		if !ok {
			continue
		}
		for _, word := range strings.Fields(value) {
			g, err := strconv.ParseUint(word, 10, 32)
			if err != nil {
				return nil, err
			}
			groups = append(groups, uint32(g))
		}
	}
	return groups, nil
}
