// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/singularity-slurm/singularity-slurm/proxyd/config/table"
)

// plugin is the name of our plugin's file.
const plugin = "spank_singularity.so"

// plugstackLine is a line of plugstack.conf, or of a file that plugstack.conf includes.
type plugstackLine struct {
	file   string
	number int // from 1
	words  []string
}

// findPlugin returns the line of plugstack.conf that loads our plugin; nil if there is no such line. misspelt is a line
// that is meant to load it, as it seems; nil if there is none.
func findPlugin(plugstack string, depth int) (line, misspelt *plugstackLine, err error) {
	text, err := os.ReadFile(plugstack)
	if err != nil {
		return nil, nil, err
	}
	number := 0
	for l := range strings.Lines(string(text)) {
		number++
		l, _, _ = strings.Cut(l, "#")
		fields := strings.Fields(l)
		switch {
		case len(fields) < 2:
		case fields[0] == "include" && depth > 0:
			pattern := fields[1]
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(filepath.Dir(plugstack), pattern)
			}
			files, err := filepath.Glob(pattern)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: include %s: %w", plugstack, fields[1], err)
			}
			for _, f := range files {
				line, near, err := findPlugin(f, depth-1)
				if err != nil || line != nil {
					return line, nil, err
				}
				misspelt = cmp.Or(misspelt, near)
			}
		case filepath.Base(fields[1]) == plugin:
			return &plugstackLine{plugstack, number, fields}, nil, nil
		case misspelt == nil && isMisspeltPlugin(fields):
			misspelt = &plugstackLine{plugstack, number, fields}
		}
	}
	return nil, misspelt, nil
}

// isMisspeltPlugin tells whether a line of plugstack.conf without the plugin's name is meant to load the plugin: the name
// is nearly there, or the line has our folder or arguments.
func isMisspeltPlugin(words []string) bool {
	const near = 3
	path := words[1]
	if table.EditDistance(filepath.Base(path), plugin) <= near || filepath.Base(filepath.Dir(path)) == pluginFolder {
		return true
	}
	return slices.ContainsFunc(words[2:], func(argument string) bool {
		key, _, _ := strings.Cut(argument, "=")
		return key == "shim" || key == "warden" || key == "without_proxyd"
	})
}

// replacePath returns the remedy for a line with a wrong path. libraries is the folder of the plugin; "": not known.
func (l *plugstackLine) replacePath(libraries string) string {
	return fmt.Sprintf("write %s in the place of %s, in line %d of %s", filepath.Join(libraries, plugin), l.words[1], l.number, l.file)
}

// pluginFolder is the name of the folder in which releases have the plugin and the shims.
const pluginFolder = "singularity-slurm"

// installedLibraries returns the folder of the plugin and the shims of the release that has its programs in libexec; ""
// if the plugin is not there.
func installedLibraries(libexec string) string {
	folder := filepath.Join(filepath.Dir(filepath.Dir(libexec)), "lib", pluginFolder)
	if _, err := os.Stat(filepath.Join(folder, plugin)); libexec == "" || err != nil {
		return ""
	}
	return folder
}

// rightLine returns the line that plugstack.conf needs; libraries is the folder of the plugin and the shims, "" if that
// is not known.
func rightLine(libraries string) string {
	if libraries == "" {
		return "optional " + plugin
	}
	return "optional " + filepath.Join(libraries, plugin) + " shim=" + filepath.Join(libraries, "libsingshim.so")
}

// pluginArguments are the keys that the plugin accepts; slurm-spank/config.c has them, too.
var pluginArguments = []string{"socket", "warden", "shim", "without_proxyd", "retry"}

// checkPlugin says whether Slurm on this node will load our plugin, and whether the arguments of
// its line are right. libraries is the folder of the installed plugin; "": not known.
func checkPlugin(s *Slurm, libraries string) Finding {
	f := Finding{Name: "slurm: plugin", Needs: plugin + " in " + s.Plugstack + ", built for Slurm " + s.Version}
	add := "add to " + s.Plugstack + " on every node: " + rightLine(libraries)
	stack, misspelt, err := findPlugin(s.Plugstack, 4)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.withProblem(Fail, "no "+s.Plugstack, add)
	case err != nil:
		return f.withProblem(Fail, err.Error(), "let root read it")
	case stack == nil && misspelt != nil:
		return f.withProblem(Fail, fmt.Sprintf("no line with it; line %d of %s seems to be meant: %s", misspelt.number, misspelt.file, strings.Join(misspelt.words, " ")),
			misspelt.replacePath(libraries))
	case stack == nil:
		return f.withProblem(Fail, "no line with it", add)
	}
	line := stack.words
	found := strings.Join(line, " ")
	if line[0] != "optional" && line[0] != "required" {
		return f.withProblem(Fail, found, fmt.Sprintf("write optional in the place of %s: Slurm knows optional, required and include", line[0]))
	}
	for _, argument := range line[2:] {
		if problem, do := checkPluginArgument(argument, libraries); problem != "" {
			return f.withProblem(Fail, found+": "+problem, do)
		}
	}
	path := s.pluginPath(line[1])
	if path == "" && s.PluginDir != "" {
		return f.withProblem(Fail, found+": no such file in Slurm's PluginDir, "+s.PluginDir, stack.replacePath(libraries))
	}
	if path != "" {
		built, err := pluginVersion(path)
		switch {
		case err != nil && libraries != "" && line[1] != filepath.Join(libraries, plugin):
			return f.withProblem(Fail, err.Error(), stack.replacePath(libraries))
		case err != nil:
			return f.withProblem(Fail, err.Error(), "install the plugin there, built for Slurm "+s.Version)
		case built != MajorMinor(s.Version):
			return f.withProblem(Fail, fmt.Sprintf("%s is built for Slurm %s: slurmd does not load it, and jobs run unprotected", path, built),
				"build and install the plugin with the headers of Slurm "+s.Version+": make SPANK_INCLUDE=…")
		}
		f.Fingerprint = fileFingerprint(path)
	}
	if line[0] == "required" {
		return f.withProblem(Warn, found, "write optional: with required, a plugin that cannot be loaded after an upgrade of Slurm stops every job of the cluster")
	}
	return f.withOK(found)
}

// checkPluginArgument returns the mistake in an argument of the plugin's line, with the remedy; ""
// if the argument is right.
func checkPluginArgument(argument, libraries string) (problem, do string) {
	key, value, hasValue := strings.Cut(argument, "=")
	known := false
	for _, k := range pluginArguments {
		known = known || k == key
	}
	switch {
	case !known:
		return "there is no " + key + "=", "accepted are " + strings.Join(pluginArguments, "=, ") + "="
	case !hasValue:
		return argument + " has no value", "write " + key + "=VALUE, or leave it out"
	case key == "retry" && !isRetryTime(value):
		return argument, "write retry=SECONDS, 0 to 3600"
	case key == "socket" && !filepath.IsAbs(value):
		return argument, "name the socket by an absolute path, or leave socket= out"
	case key == "without_proxyd" && value != "refuse" && value != "run":
		return argument, "write without_proxyd=refuse or without_proxyd=run"
	case (key == "shim" || key == "warden") && value != "none":
		if st, err := os.Stat(value); err != nil || !st.Mode().IsRegular() {
			if key == "shim" && libraries != "" {
				return "no file " + value, "write shim=" + filepath.Join(libraries, "libsingshim.so")
			}
			return "no file " + value, "make install puts it there; or name where it is"
		}
	}
	return "", ""
}

// isRetryTime tells whether the plugin takes a value of retry=.
func isRetryTime(value string) bool {
	seconds, err := strconv.Atoi(value)
	return err == nil && seconds >= 0 && seconds <= 3600
}

// pluginPath returns the path at which slurmd finds the plugin; "": not known.
func (s *Slurm) pluginPath(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	for _, dir := range filepath.SplitList(s.PluginDir) {
		if path := filepath.Join(dir, name); filepath.IsAbs(path) {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return ""
}

// MajorMinor returns "26.05" of "26.05.5".
func MajorMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1]
}

// pluginVersion returns the major.minor of Slurm for which a plugin is built: the number that
// SPANK_PLUGIN of Slurm's header has put into it, and that slurmd compares.
func pluginVersion(path string) (string, error) {
	file, err := elf.Open(path)
	if err != nil {
		if errors.As(err, new(*elf.FormatError)) {
			return "", fmt.Errorf("%s is no plugin: %w", path, err)
		}
		return "", err
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return "", fmt.Errorf("%s is no plugin: %w", path, err)
	}
	for _, symbol := range symbols {
		if symbol.Name != "plugin_version" {
			continue
		}
		for _, section := range file.Sections {
			if section.Type != elf.SHT_PROGBITS || symbol.Value < section.Addr || symbol.Value+4 > section.Addr+section.Size {
				continue
			}
			var number [4]byte
			if _, err := section.ReadAt(number[:], int64(symbol.Value-section.Addr)); err != nil {
				return "", fmt.Errorf("%s: %w", path, err)
			}
			n := binary.LittleEndian.Uint32(number[:])
			return fmt.Sprintf("%d.%02d", n>>16, n>>8&0xff), nil
		}
	}
	return "", fmt.Errorf("%s is no plugin of Slurm: it has no plugin_version", path)
}

// fileFingerprint returns a short hash of a file; "" if the file cannot be read.
func fileFingerprint(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return shortHash(content)
}

func shortHash(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf("%x", sum[:6])
}
