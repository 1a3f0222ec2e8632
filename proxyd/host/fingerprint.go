// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Fingerprint has the properties of a node that a restored program notices. The checkpoint keeps
// the Fingerprint, which is compared before anything is torn down.
type Fingerprint struct {
	Arch   string   `json:"arch"`   // as Go names the architecture
	Vendor string   `json:"vendor"` // of the CPU: "GenuineIntel"
	Model  string   `json:"model"`  // for people
	Flags  []string `json:"flags"`  // sorted; instructions only, of /proc/cpuinfo
	Kernel string   `json:"kernel"` // uname -r
	// Files that are mapped into programs, each with its build id: an unchanged page is not in an
	// image, but is read from the file again.
	Files map[string]string `json:"files"`
}

// FingerprintOf describes this node as seen in the tree root ("/", or /proc/PID/root of a
// capsule). Files are the C library, its loader, and those in more, which are paths in that tree. A
// file without a build id is left out, and so is a missing file: Compatible reports a file that was
// mapped and is missing now.
func FingerprintOf(root string, more ...string) (Fingerprint, error) {
	if _, err := os.Stat(root); err != nil { // else all files would only look missing
		return Fingerprint{}, fmt.Errorf("fingerprint: %w", err)
	}
	info, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return Fingerprint{}, fmt.Errorf("fingerprint: %w", err)
	}
	defer info.Close()
	f, err := parseCPU(info)
	if err != nil {
		return Fingerprint{}, fmt.Errorf("fingerprint: %w", err)
	}
	f.Arch, f.Kernel, f.Files = runtime.GOARCH, Release(), make(map[string]string)
	for _, path := range slices.Concat(systemLibraries(root), more) {
		id, err := buildIDIn(root, path)
		switch {
		case err == nil:
			f.Files[path] = id
		case errors.Is(err, ErrNoBuildID), errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		default:
			return Fingerprint{}, fmt.Errorf("fingerprint: %w", err)
		}
	}
	return f, nil
}

// systemLibraries finds, in that tree, the libraries that nearly every program maps, by all of
// their names: /lib is a link on most systems, not on all.
func systemLibraries(root string) []string {
	var found []string
	for _, pattern := range []string{"usr/lib/*-linux-gnu/", "usr/lib64/", "lib/*-linux-gnu/", "lib64/"} {
		for _, name := range []string{"ld-linux-*.so.?", "libc.so.6", "libm.so.6", "libstdc++.so.6"} {
			paths, _ := filepath.Glob(filepath.Join(root, pattern+name)) // the patterns are right
			for _, p := range paths {
				if rel, err := filepath.Rel(root, p); err == nil {
					found = append(found, "/"+rel)
				}
			}
		}
	}
	return found
}

// parseCPU reads the first processor of a /proc/cpuinfo, of x86 or Arm.
func parseCPU(r interface{ Read([]byte) (int, error) }) (Fingerprint, error) {
	var f Fingerprint
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if !ok {
			if f.Flags != nil {
				break // the next processor begins
			}
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "vendor_id", "CPU implementer":
			f.Vendor = value
		case "model name":
			f.Model = value
		case "flags", "Features":
			for flag := range strings.FieldsSeq(value) {
				if instructions[flag] || runtime.GOARCH != "amd64" {
					f.Flags = append(f.Flags, flag)
				}
			}
			slices.Sort(f.Flags)
			if f.Flags == nil {
				f.Flags = []string{}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return f, err
	}
	if f.Flags == nil {
		return f, errors.New("/proc/cpuinfo names no features")
	}
	return f, nil
}

// instructions are the flags of x86 for instructions that programs use, and for the layout of the
// registers that the kernel saves (xsave…). The rest of the line is for kernels and hypervisors,
// and changes with microcode and mitigations.
var instructions = flagSet(`
	cmov cx8 cx16 fxsr mmx sse sse2 pni ssse3 sse4_1 sse4_2 sse4a popcnt lahf_lm movbe abm bmi1 bmi2 tbm lzcnt
	aes vaes pclmulqdq vpclmulqdq sha_ni sha512 sm3 sm4 gfni rdrand rdseed adx f16c fma fma4 xop rdtscp rdpid fsgsbase
	avx avx2 avx_vnni avx_ifma avx_vnni_int8 avx_vnni_int16 avx_ne_convert
	avx512f avx512dq avx512ifma avx512cd avx512bw avx512vl avx512pf avx512er avx512vbmi avx512_vbmi2 avx512_vnni
	avx512_bitalg avx512_vpopcntdq avx512_bf16 avx512_fp16 avx512_vp2intersect avx512_4vnniw avx512_4fmaps
	amx_bf16 amx_tile amx_int8 amx_fp16 amx_complex
	xsave xsaveopt xsavec xsaves xgetbv1 pku ospke cet_ss user_shstk waitpkg clflushopt clwb clzero cldemote movdiri movdir64b
	enqcmd serialize tsxldtrk rtm hle prefetchwt1 prefetchi 3dnow 3dnowext 3dnowprefetch mmxext wbnoinvd cmpccxadd raoint`)

func flagSet(words string) map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		set[w] = true
	}
	return set
}

// ErrIncompatible matches every *IncompatibleError in errors.Is.
var ErrIncompatible = errors.New("incompatible node")

// IncompatibleError says why a checkpoint cannot be restored on this node.
type IncompatibleError struct {
	Reasons []string // never empty
}

func (e *IncompatibleError) Error() string {
	return "incompatible node: " + strings.Join(e.Reasons, "; ")
}

// Is makes errors.Is(err, ErrIncompatible) true.
func (e *IncompatibleError) Is(target error) bool { return target == ErrIncompatible }

// Compatible says whether programs that were captured on a node like then can run on a node like
// now: nil, or an *IncompatibleError with all reasons against it.
//
// CPUs must be of the same vendor, because the layout of saved registers differs between vendors.
// The new CPU must have every instruction of the old: programs looked for instructions only when
// they started. The kernel may be newer, not older in its first two numbers. The files of then must
// exist with the same build ids.
func Compatible(then, now Fingerprint) error {
	var reasons []string
	say := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	if then.Arch != now.Arch {
		say("captured on %s, this is %s", then.Arch, now.Arch)
	} else {
		if then.Vendor != now.Vendor {
			say("captured on a CPU of %s, this is one of %s", then.Vendor, now.Vendor)
		}
		var lacking []string
		for _, flag := range then.Flags {
			if !slices.Contains(now.Flags, flag) {
				lacking = append(lacking, flag)
			}
		}
		if len(lacking) > 0 {
			say("its CPU (%s) lacks %s", now.Model, strings.Join(lacking, ", "))
		}
	}
	if isOlderKernel(now.Kernel, then.Kernel) {
		say("captured on Linux %s, this is the older %s", then.Kernel, now.Kernel)
	}
	for _, path := range slices.Sorted(maps.Keys(then.Files)) {
		switch id, ok := now.Files[path]; {
		case !ok:
			say("%s is missing", path)
		case id != then.Files[path]:
			say("%s is another build (%.12s, was %.12s)", path, id, then.Files[path])
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return &IncompatibleError{reasons}
}

var kernelSyntax = regexp.MustCompile(`^([0-9]+)\.([0-9]+)`)

// isOlderKernel says whether kernel a is older than b, as far as both can be read.
func isOlderKernel(a, b string) bool {
	ma, mb := kernelSyntax.FindStringSubmatch(a), kernelSyntax.FindStringSubmatch(b)
	if ma == nil || mb == nil {
		return false
	}
	for i := 1; i <= 2; i++ {
		x, _ := strconv.Atoi(ma[i])
		y, _ := strconv.Atoi(mb[i])
		if x != y {
			return x < y
		}
	}
	return false
}
