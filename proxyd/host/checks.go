// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/shared"
)

// checkRoot checks that this process is root and has the capabilities that proxyd needs.
func checkRoot(context.Context, *node) Finding {
	f := Finding{Name: "rights", Needs: "root with the capabilities of a system service"}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return f.withProblem(Fail, err.Error(), "mount /proc")
	}
	lacking := lackingCapabilities(string(status))
	if os.Geteuid() != 0 || len(lacking) > 0 {
		return f.withProblem(Fail, fmt.Sprintf("user %d without %s", os.Geteuid(), strings.Join(lacking, ", ")),
			"start proxyd as root, in the unit without CapabilityBoundingSet, outside of containers")
	}
	return f.withOK("root, all that are needed")
}

func checkKernel(context.Context, *node) Finding {
	f := Finding{Name: "kernel", Needs: "namespaces, time namespaces, pidfd and openat2: " + KernelNeeds + " or newer has all"}
	for _, feature := range []*Feature{&Namespaces, &TimeNamespaces, &Pidfd, &Openat2} {
		if err := feature.Recheck(); err != nil {
			return f.withProblem(Fail, err.Error(), "boot "+KernelNeeds+" or newer, with that option")
		}
	}
	return f.withOK("Linux " + Release())
}

func checkFreezer(context.Context, *node) Finding {
	f := Finding{Name: "kernel: freezer", Needs: "cgroup v2, mounted or not, with or without controllers: " + KernelNeeds + " or newer"}
	if err := Freezer.Recheck(); err != nil {
		return f.withProblem(Fail, err.Error(), "boot a newer kernel, or without cgroup_disable and cgroup_no_v1 options")
	}
	if err := GroupKill.Recheck(); err != nil {
		return f.withProblem(Warn, err.Error(), "boot "+KernelNeeds+" or newer: until then users can end the processes of ours that watch over their own")
	}
	return f.withOK("there")
}

func checkNetwork(context.Context, *node) Finding {
	f := Finding{Name: "kernel: network", Needs: "nftables and veth; vxlan where nodes are not neighbours"}
	for _, feature := range []*Feature{&Nftables, &Veth} {
		if err := feature.Recheck(); err != nil {
			return f.withProblem(Fail, err.Error(), "load nf_tables and veth at boot (/etc/modules-load.d), or install the kernel's package of modules")
		}
	}
	if err := VXLAN.Recheck(); err != nil {
		return f.withProblem(Warn, err.Error(), "load vxlan at boot if nodes reach each other through routers")
	}
	return f.withOK("nftables, veth, vxlan")
}

func checkCriuFinding(ctx context.Context, n *node) Finding {
	f := Finding{Name: "criu", Needs: CriuNeeds + " or newer"}
	version, err := Criu(ctx, "criu")
	if err != nil {
		return f.withProblem(Fail, err.Error(), "install "+CriuNeeds+" or newer (Debian forky has it; for older releases: make criu, docs/install.md) so that it is in PATH")
	}
	return f.withOK("criu " + version)
}

func checkMunge(ctx context.Context, n *node) Finding {
	f := Finding{Name: "munge", Needs: "munged on this node, with munge and unmunge in PATH"}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	began := time.Now()
	credential, err := n.coder.Encode(ctx, []byte("doctor"))
	if err == nil {
		_, err = n.coder.Decode(ctx, credential)
	}
	if err != nil {
		return f.withProblem(Fail, err.Error(), "systemctl start munge; the key in /etc/munge must be that of the other nodes")
	}
	return f.withOK(fmt.Sprintf("made and read a credential in %s", time.Since(began).Round(100*time.Microsecond)))
}

// capabilities that proxyd needs, each with the operations that need it.
var capabilities = []struct {
	bit  int
	name string
}{
	{unix.CAP_SYS_ADMIN, "cap_sys_admin"},                   // namespaces, mounts
	{unix.CAP_SYS_PTRACE, "cap_sys_ptrace"},                 // criu, /proc of users
	{unix.CAP_NET_ADMIN, "cap_net_admin"},                   // addresses, routes, nftables, TCP repair
	{unix.CAP_SETUID, "cap_setuid"},                         // act as the job's user
	{unix.CAP_SETGID, "cap_setgid"},                         // the same
	{unix.CAP_CHOWN, "cap_chown"},                           // put files back
	{unix.CAP_DAC_OVERRIDE, "cap_dac_override"},             // /tmp of capsules
	{unix.CAP_FOWNER, "cap_fowner"},                         // the same
	{unix.CAP_KILL, "cap_kill"},                             // freeze, end
	{unix.CAP_MKNOD, "cap_mknod"},                           // /dev of capsules
	{unix.CAP_CHECKPOINT_RESTORE, "cap_checkpoint_restore"}, // chosen PIDs
}

// lackingCapabilities reads a /proc/PID/status.
func lackingCapabilities(status string) []string {
	var effective uint64 // empty, if the file cannot be read
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			if n, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64); err == nil {
				effective = n
			}
		}
	}
	var lacking []string
	for _, c := range capabilities {
		if effective&(1<<c.bit) == 0 {
			lacking = append(lacking, c.name)
		}
	}
	return lacking
}

func checkPrograms(_ context.Context, n *node) Finding {
	f := Finding{Name: "installed", Needs: "sing-warden, sing-srun and sing-pmix beside proxyd"}
	if n.known.Libexec == "" {
		return f.withOK("not looked at")
	}
	for _, name := range []string{"sing-warden", "sing-srun", "sing-pmix"} {
		path := filepath.Join(n.known.Libexec, name)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return f.withProblem(Fail, err.Error(), "make install")
		case !info.Mode().IsRegular() || info.Mode()&0o001 == 0:
			return f.withProblem(Fail, fmt.Sprintf("%s has mode %s", path, info.Mode()), "chmod 755 "+path+": users run it")
		}
	}
	return f.withOK(n.known.Libexec)
}

func checkKey(_ context.Context, n *node) Finding {
	f := Finding{Name: "key", Needs: n.cfg.KeyFile + ", the same on all nodes, for root only"}
	var st unix.Stat_t
	err := unix.Lstat(n.cfg.KeyFile, &st)
	f.Fingerprint = n.known.KeyInUse
	switch {
	case errors.Is(err, unix.ENOENT) && n.known.KeyInUse != "":
		return f.withProblem(Fail, "none; proxyd works with "+n.known.KeyInUse+", which it read when it started, and will not start again",
			"copy it from another node: with a new one (proxyd key "+n.cfg.KeyFile+") all checkpoints made so far are refused")
	case errors.Is(err, unix.ENOENT):
		return f.withProblem(Fail, "none", "once for the cluster: proxyd key "+n.cfg.KeyFile+"; then copy it to all nodes")
	case err != nil:
		return f.withProblem(Fail, err.Error(), "let root read it")
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return f.withProblem(Fail, "not a file", "replace it by a copy of the key")
	case st.Uid != 0 || st.Mode&0o077 != 0:
		return f.withProblem(Fail, fmt.Sprintf("owned by user %d, mode %04o", st.Uid, st.Mode&0o7777),
			fmt.Sprintf("chown root:root %[1]s && chmod 600 %[1]s; if others could read it, it has to be replaced, with which all checkpoints made so far are refused: docs/install.md, The key", n.cfg.KeyFile))
	}
	if n.known.ReadKey == nil {
		return f.withOK("there")
	}
	inFile, err := n.known.ReadKey()
	if err != nil {
		return f.withProblem(Fail, err.Error(), "copy the cluster's key to "+n.cfg.KeyFile+", owned by root with mode 0600")
	}
	if inFile != n.known.KeyInUse {
		return f.withProblem(Fail, fmt.Sprintf("proxyd works with %s, which it read when it started; the file was replaced since, and has %s", n.known.KeyInUse, inFile),
			"if all nodes are to have the new key: systemctl restart proxyd, in the order of docs/install.md, A new key; else put the old key back")
	}
	return f.withOK("there, " + inFile)
}

// checkConfiguration compares the configuration that the daemon works with and that of the file. singctl compares the
// fingerprints of the nodes.
func checkConfiguration(_ context.Context, n *node) Finding {
	f := Finding{Name: "configuration", Needs: "a file that proxyd accepts and has read; the same on all nodes, but for what is a node's own"}
	f.Fingerprint = n.cfg.Fingerprint()
	if n.known.LoadConfig == nil {
		return f.withOK(f.Fingerprint)
	}
	inFile, err := n.known.LoadConfig()
	if err != nil {
		return f.withProblem(Fail, strings.ReplaceAll(strings.TrimPrefix(err.Error(), "configuration: "), "\n", "; ")+"; proxyd works with what it read when it started, and will not start again",
			"mend the file until `proxyd config check` is content, then systemctl restart proxyd: jobs run on")
	}
	changed := n.cfg.ChangedKeys(inFile)
	if len(changed) == 0 {
		return f.withOK(f.Fingerprint)
	}
	older := "proxyd works with an older configuration than the file has: " + strings.Join(changed, ", ")
	if folder := inFile.Staging.Folder; slices.Contains(changed, "staging.folder") && folder != "" {
		if fault := stagingFault(folder); fault != "" {
			return f.withProblem(Fail, older+"; proxyd would not start with it: "+fault, fmt.Sprintf("have root own %s with mode 700, on a disk of this node, then systemctl restart proxyd: jobs run on", folder))
		}
	}
	return f.withProblem(Warn, older, "systemctl restart proxyd: jobs run on")
}

// stagingFault returns why proxyd does not start with a staging folder; "": proxyd starts.
func stagingFault(folder string) string {
	fs, err := statFilesystem(folder)
	switch {
	case err != nil:
		return err.Error()
	case fs.owner != 0 || fs.mode&0o077 != 0:
		return fmt.Sprintf("%s is owned by user %d, mode %04o", folder, fs.owner, uint32(fs.mode))
	}
	return ""
}

func checkShared(_ context.Context, n *node) Finding {
	f := Finding{Name: "shared folder", Needs: n.cfg.Shared + " on a file system that all nodes share, owned by root"}
	return n.checkFolder(f, Fail, n.cfg.Shared, func() Finding { return judgeShared(f, n) })
}

func judgeShared(f Finding, n *node) Finding {
	// First: the owner and mode of a mount point say nothing about the folder.
	if n.known.CheckShared != nil {
		if err := n.known.CheckShared(); err != nil {
			return judgeAway(f, n.cfg.Shared, err)
		}
	}
	fs, err := statFilesystem(n.cfg.Shared)
	if err != nil {
		return f.withProblem(Fail, err.Error(), mountCommand("the shared file system", n.cfg.Shared))
	}
	if fs.owner != 0 || fs.mode&0o022 != 0 {
		return f.withProblem(Fail, fmt.Sprintf("owned by user %d, mode %04o", fs.owner, uint32(fs.mode)),
			fmt.Sprintf("chown root:root %[1]s && chmod 755 %[1]s; where NFS squashes root, export it with no_root_squash", n.cfg.Shared))
	}
	if err := SharedIsRoots(n.cfg.Shared); err != nil {
		return f.withProblem(Fail, err.Error(), "have each folder from / to it, and what proxyd has in it, belong to root, with mode 755; proxyd does not start before")
	}
	if _, err := tryFolder(n.cfg.Shared); err != nil {
		return f.withProblem(Fail, err.Error(), "use a file system where root of every node can link, rename and flush (NFS: no_root_squash)")
	}
	f.Fingerprint = n.known.SharedID
	if n.known.SharedCluster != "" {
		if s, err := n.slurm(); err == nil && !strings.EqualFold(n.known.SharedCluster, s.Cluster) {
			return f.withProblem(Warn, fmt.Sprintf("it is marked for cluster %q, and Slurm calls this one %q: two clusters with one folder mix up their jobs", n.known.SharedCluster, s.Cluster),
				fmt.Sprintf("give each cluster a folder of its own; if this one was renamed, write its name into %s", filepath.Join(n.cfg.Shared, "cluster.json")))
		}
	}
	return judgeSpace(f, fs)
}

// judgeAway completes the finding of a shared folder that is not the folder with which the daemon has begun.
func judgeAway(f Finding, folder string, err error) Finding {
	const waits = "; until then tasks that start wait for it"
	switch {
	case errors.Is(err, shared.ErrUnmarked):
		return f.withProblem(Fail, fmt.Sprintf("the file system of %s is not mounted: %v", folder, shared.ErrUnmarked), mountCommand("the shared file system", folder)+waits)
	case errors.Is(err, shared.ErrForeign):
		return f.withProblem(Fail, err.Error(), "chown root the mark that the line names, and chmod go-w it; where NFS squashes root, export it with no_root_squash"+waits)
	case errors.Is(err, shared.ErrNoStore), errors.Is(err, shared.ErrOtherStore):
		return f.withProblem(Fail, err.Error(), mountCommand("the store's file system", filepath.Join(folder, "store"))+waits)
	case errors.Is(err, shared.ErrOther):
		return f.withProblem(Fail, err.Error(), "mount the shared file system of this cluster in its place"+waits)
	}
	return f.withProblem(Fail, err.Error(), "mount the shared file system again, or see its server"+waits)
}

// isSharedAway tells whether the shared folder is not the folder with which the daemon has begun; its store may be away.
func (n *node) isSharedAway() bool {
	if n.known.CheckShared == nil {
		return false
	}
	err := n.known.CheckShared()
	return err != nil && !errors.Is(err, shared.ErrNoStore) && !errors.Is(err, shared.ErrOtherStore)
}

// judgeSpace completes the finding of a folder that nodes share, by its file system and free space.
func judgeSpace(f Finding, fs filesystem) Finding {
	found := fmt.Sprintf("%s, %s of %s free", fs.kind, bytesText(fs.free), bytesText(fs.total))
	switch {
	case fs.kind == "tmpfs":
		return f.withProblem(Warn, found, "move it off memory: checkpoints must outlive the node")
	case fs.free < fs.total/20:
		return f.withProblem(Warn, found, "singctl gc, or give it more space: a checkpoint that does not fit is refused")
	}
	return f.withOK(found)
}

// storeFolder returns where the store is.
func (n *node) storeFolder() string { return filepath.Join(n.cfg.Shared, "store") }

// checkStore looks at the file system of the store, which may be another than the shared folder's.
func checkStore(_ context.Context, n *node) Finding {
	f := Finding{Name: "store", Needs: n.storeFolder() + " in the shared folder, or a file system of its own that all nodes share"}
	return n.checkFolder(f, Fail, n.storeFolder(), func() Finding { return judgeStore(f, n) })
}

func judgeStore(f Finding, n *node) Finding {
	whole, err := statFilesystem(n.cfg.Shared)
	if err != nil || n.isSharedAway() {
		return f.withProblem(Fail, "cannot tell without the shared folder", "see there")
	}
	fs, err := statFilesystem(n.storeFolder())
	switch {
	case err != nil:
		return f.withProblem(Fail, err.Error(), "mount the store's file system; where there was no store yet, proxyd makes the folder when it starts")
	case fs.device == whole.device:
		return f.withOK("in the shared folder")
	}
	if _, err := tryFolder(n.storeFolder()); err != nil {
		return f.withProblem(Fail, err.Error(), "use a file system where root of every node can link, rename and flush (NFS: no_root_squash)")
	}
	return judgeSpace(f, fs)
}

func checkStaging(_ context.Context, n *node) Finding {
	dir := n.cfg.Staging.Folder
	f := Finding{Name: "staging", Needs: "staging.folder on a disk or in the memory of this node, or none"}
	if dir == "" {
		return f.withOK("none: checkpoints go straight to the shared folder")
	}
	return n.checkFolder(f, Fail, dir, func() Finding { return judgeStaging(f, dir) })
}

func judgeStaging(f Finding, dir string) Finding {
	fs, err := statFilesystem(dir)
	switch {
	case missingMount(dir) != "":
		return f.withProblem(Fail, "the file system of "+dir+" is not mounted", mountCommand("its disk", dir))
	case err != nil:
		return f.withProblem(Fail, err.Error(),
			fmt.Sprintf("mount its disk: the folder was there when proxyd started; if it was removed, what was in it is lost: mkdir -m 700 %s, and systemctl restart proxyd", dir))
	}
	if fs.owner != 0 || fs.mode&0o077 != 0 {
		return f.withProblem(Fail, fmt.Sprintf("owned by user %d, mode %04o", fs.owner, uint32(fs.mode)),
			fmt.Sprintf("chown root:root %[1]s && chmod 700 %[1]s", dir))
	}
	if err := RootOnly(dir); err != nil {
		return f.withProblem(Fail, err.Error(), "have each folder from / to it belong to root, with mode 755; proxyd does not start before")
	}
	if _, err := tryFolder(dir); err != nil {
		return f.withProblem(Fail, err.Error(), "use a file system that can link, rename and flush")
	}
	found := fmt.Sprintf("%s, %s of %s free", fs.kind, bytesText(fs.free), bytesText(fs.total))
	switch {
	case slices.Contains([]string{"nfs", "lustre", "gpfs", "beegfs", "ceph"}, fs.kind):
		return f.withProblem(Warn, found, "name a folder of this node: what is written over the network might as well go to the shared folder")
	case fs.free < fs.total/20:
		return f.withProblem(Warn, found, "give it more space: checkpoints that find no room go straight to the shared folder")
	}
	return f.withOK(found)
}

func checkClock(_ context.Context, n *node) Finding {
	f := Finding{Name: "clock", Needs: "within " + toleratedClock.String() + " of the file server's; munge refuses credentials that are 5 min off"}
	return n.checkFolder(f, Warn, n.cfg.Shared, func() Finding { return judgeClock(f, n) })
}

// toleratedClock is the tolerated difference between the clocks of a node and of the file server.
const toleratedClock = 30 * time.Second

func judgeClock(f Finding, n *node) Finding {
	ahead, err := tryFolder(n.cfg.Shared)
	if err != nil || n.isSharedAway() {
		return f.withProblem(Warn, "cannot tell without the shared folder", "see there")
	}
	found := fmt.Sprintf("%s apart", ahead.Abs().Round(time.Millisecond))
	if ahead.Abs() > toleratedClock {
		return f.withProblem(Warn, found, "let chrony or ntpd set the clocks")
	}
	return f.withOK(found)
}

// bytesText writes n in the largest unit in which it is at least 1.
func bytesText(n uint64) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"}
	f, i := float64(n), 0
	for ; f >= 1024 && i < len(units)-1; i++ {
		f /= 1024
	}
	if i == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}
