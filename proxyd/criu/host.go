// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package criu

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/singularity-slurm/singularity-slurm/proxyd/host"
)

// UnsupportedHost says why this host cannot dump or restore, and how the administrator can change that.
type UnsupportedHost struct {
	Reason string
	Advice string // for the administrator; may be ""
}

func (e *UnsupportedHost) Error() string {
	if e.Advice == "" {
		return e.Reason
	}
	return e.Reason + ": " + e.Advice
}

// advice is given where a program is missing.
var advice = map[string]string{
	"criu":    "install " + host.CriuNeeds + " or newer",
	"nsenter": "install util-linux",
	"setpriv": "install util-linux",
	"prlimit": "install util-linux",
}

// kerndat is where criu keeps its findings about the kernel. With the job's ids criu could not make these findings.
const (
	kerndat     = "/run/" + kerndatName
	kerndatName = "criu.kdat"
)

// Check returns the version of the host's CRIU if dumps and restores work here, and has criu write kerndat, which they
// need. The error is an *UnsupportedHost if the host lacks something. Check needs root and takes a tenth of a second; call
// Check when the daemon starts.
func Check(ctx context.Context) (version string, err error) {
	for _, name := range []string{"nsenter", "setpriv", "prlimit"} {
		if _, err := findProgram(name); err != nil {
			return "", err
		}
	}
	version, err = criuVersion(ctx)
	if err != nil {
		return "", err
	}
	if os.Geteuid() != 0 {
		return version, &UnsupportedHost{"not root", "only root can dump and restore"}
	}
	if err := criuCheck(ctx); err != nil {
		return version, err
	}
	fd, err := detachedTmpfs()
	if err != nil {
		return version, &UnsupportedHost{fmt.Sprintf("a tmpfs cannot be mounted: %v", err), "CAP_SYS_ADMIN and Linux 5.2 are needed"}
	}
	unix.Close(fd)
	return version, nil
}

// known is the version of the program that was asked last.
var known struct {
	sync.Mutex
	file    os.FileInfo
	version string
}

// criuVersion asks criu for its version, unless the same file was asked before.
func criuVersion(ctx context.Context) (string, error) {
	path, err := findProgram("criu")
	if err != nil {
		return "", err
	}
	file, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	known.Lock()
	defer known.Unlock()
	if k := known.file; k != nil && os.SameFile(k, file) && k.ModTime().Equal(file.ModTime()) {
		return known.version, nil
	}
	version, err := askVersion(ctx)
	if err == nil {
		known.file, known.version = file, version
	}
	return version, err
}

func askVersion(ctx context.Context) (string, error) {
	out, err := runCRIU(ctx, "--version")
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`Version: (\S+)`).FindStringSubmatch(out)
	if m == nil {
		return "", &UnsupportedHost{fmt.Sprintf("criu --version says %q", out), advice["criu"]}
	}
	var major, minor int
	if _, err := fmt.Sscanf(m[1], "%d.%d", &major, &minor); err != nil {
		return "", &UnsupportedHost{fmt.Sprintf("criu's version is %q", m[1]), advice["criu"]}
	}
	if major < host.CriuMajor || major == host.CriuMajor && minor < host.CriuMinor {
		return m[1], &UnsupportedHost{"criu " + m[1] + " is too old", advice["criu"]}
	}
	return m[1], nil
}

func criuCheck(ctx context.Context) error {
	_, err := runCRIU(ctx, "check", "--no-default-config")
	return err
}

// prepareKernel makes sure that criu knows the kernel, before criu runs with other real ids.
func prepareKernel(ctx context.Context) error {
	if _, err := os.Stat(kerndat); err == nil {
		return nil
	}
	return criuCheck(ctx)
}

// runCRIU runs criu on the host itself. An error is an *UnsupportedHost, or ctx's.
func runCRIU(ctx context.Context, args ...string) (string, error) {
	path, err := findProgram("criu")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir = quiet, "/"
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		var l logbook
		_, _ = l.Write(out) // never fails
		why := strings.TrimSpace(string(out))
		if c := l.allComplaints(); len(c) > 0 {
			why = c[len(c)-1].text
		}
		return "", &UnsupportedHost{fmt.Sprintf("criu %s: %v: %s", args[0], err, why), "the kernel lacks what CRIU needs, or this process a capability"}
	}
	return string(out), nil
}

// Host has the properties of a host that matter to the programs that were dumped on it.
type Host struct {
	CRIU   string   `json:"criu"` // version
	Kernel string   `json:"kernel"`
	Arch   string   `json:"arch"`
	CPU    []string `json:"cpu"` // features that programs can use, ordered
}

func hostWith(version string) (Host, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Host{}, os.NewSyscallError("uname", err)
	}
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return Host{}, err
	}
	return Host{CRIU: version, Kernel: unix.ByteSliceToString(u.Release[:]), Arch: runtime.GOARCH, CPU: cpuFeatures(string(b))}, nil
}

// usable are the flags of /proc/cpuinfo that are instructions or registers of programs.
// Other flags (mitigations, virtualisation, power) may differ from node to node.
var usable = regexp.MustCompile(`^(mmx.*|3dnow.*|fxsr.*|s?sse.*|avx.*|amx.*|fma4?|f16c|bmi[12]|abm|tbm|xop|popcnt|v?aes|v?pclmulqdq|sha.*|sm[34]|gfni|` +
	`adx|rdrand|rdseed|movbe|movdir.*|cx8|cx16|cmov|xsave.*|xgetbv1|fsgsbase|rdpid|rdtscp|clflush.*|clwb|cldemote|serialize|waitpkg|` +
	`pku|lahf_lm|rtm|hle|lwp|mwaitx|cmpccxadd|raoint|prefetchi)$`)

// cpuFeatures returns the features of the first CPU in /proc/cpuinfo.
func cpuFeatures(cpuinfo string) []string {
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(key) {
		case "flags": // x86
			features := []string{}
			for _, flag := range strings.Fields(value) {
				if usable.MatchString(flag) {
					features = append(features, flag)
				}
			}
			slices.Sort(features)
			return features
		case "Features": // arm64: all are instructions
			features := strings.Fields(value)
			slices.Sort(features)
			return features
		}
	}
	return nil
}

// Fits returns nil if the program dumped as i can run on h, else an *UnsupportedHost. The caller can ask before it stops
// anything; CRIU itself compares libraries, by build id.
func (i *Image) Fits(h Host) error {
	if i.Host.Arch != h.Arch {
		return &UnsupportedHost{Reason: fmt.Sprintf("it was dumped on %s, this is %s", i.Host.Arch, h.Arch)}
	}
	var missing []string
	for _, f := range i.Host.CPU {
		if _, found := slices.BinarySearch(h.CPU, f); !found {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 {
		return &UnsupportedHost{"the CPU lacks " + strings.Join(missing, " "), "restore it on a node that has these features, as the one where it was dumped"}
	}
	return nil
}
