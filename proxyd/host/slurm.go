// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Slurm is what of its configuration concerns us.
type Slurm struct {
	Version     string
	Cluster     string
	User        string // SlurmUser
	UID         uint32 // of User
	KillWait    time.Duration
	Proctrack   string // "proctrack/cgroup"
	JobRequeue  bool
	RequeueExit string // "123", "(null)"
	SpoolDir    string // of slurmd on this node, with %n and %h replaced
	Plugstack   string // path of plugstack.conf
}

// ReadSlurm asks slurmctld for its configuration, through scontrol. node is this one.
func ReadSlurm(ctx context.Context, scontrol, node string) (*Slurm, error) {
	out, err := runProgram(ctx, scontrol, "show", "config")
	if err != nil {
		return nil, err
	}
	return parseSlurm(out, node)
}

var userSyntax = regexp.MustCompile(`^([^()]+)\(([0-9]+)\)$`)

// parseSlurm reads "Key = value" lines.
func parseSlurm(out, node string) (*Slurm, error) {
	values := make(map[string]string)
	for line := range strings.Lines(out) {
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); ok && values[key] == "" {
			values[key] = strings.TrimSpace(value)
		}
	}
	for _, key := range []string{"SLURM_VERSION", "ClusterName", "KillWait", "ProctrackType", "SlurmUser", "SLURM_CONF"} {
		if values[key] == "" {
			return nil, fmt.Errorf("scontrol show config: no %s", key)
		}
	}
	user := userSyntax.FindStringSubmatch(values["SlurmUser"])
	if user == nil {
		return nil, fmt.Errorf("scontrol show config: SlurmUser %.80q", values["SlurmUser"])
	}
	uid, err := strconv.ParseUint(user[2], 10, 32)
	if err != nil {
		return nil, fmt.Errorf("scontrol show config: SlurmUser %.80q", values["SlurmUser"])
	}
	number, _, _ := strings.Cut(values["KillWait"], " ") // "30 sec"
	killWait, err := strconv.ParseUint(number, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("scontrol show config: KillWait %.80q", values["KillWait"])
	}
	s := &Slurm{
		Version: values["SLURM_VERSION"], Cluster: values["ClusterName"], User: user[1], UID: uint32(uid),
		KillWait: time.Duration(killWait) * time.Second, Proctrack: values["ProctrackType"],
		JobRequeue: values["JobRequeue"] == "1", RequeueExit: values["RequeueExit"],
		SpoolDir:  strings.NewReplacer("%n", node, "%h", node).Replace(values["SlurmdSpoolDir"]),
		Plugstack: values["PlugStackConfig"],
	}
	if !filepath.IsAbs(s.Plugstack) { // "(null)" in some releases where it is the default
		s.Plugstack = filepath.Join(filepath.Dir(values["SLURM_CONF"]), "plugstack.conf")
	}
	return s, nil
}

// plugin is how our plugin's file is named.
const plugin = "spank_singularity.so"

// findPlugin returns the line of plugstack.conf, or of a file it includes, that loads our
// plugin, and the plugin's path as written; "" if there is none.
func findPlugin(plugstack string, depth int) (line, path string, err error) {
	text, err := os.ReadFile(plugstack)
	if err != nil {
		return "", "", err
	}
	for l := range strings.Lines(string(text)) {
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
				return "", "", fmt.Errorf("%s: include %s: %w", plugstack, fields[1], err)
			}
			for _, f := range files {
				line, path, err := findPlugin(f, depth-1)
				if err != nil || line != "" {
					return line, path, err
				}
			}
		case filepath.Base(fields[1]) == plugin:
			return strings.Join(fields, " "), fields[1], nil
		}
	}
	return "", "", nil
}

// checkPlugin says whether Slurm on this node will load our plugin.
func checkPlugin(s *Slurm) Finding {
	f := Finding{Name: "slurm: plugin", Needs: plugin + " in " + s.Plugstack}
	add := "add to " + s.Plugstack + " on every node: optional " + plugin
	line, path, err := findPlugin(s.Plugstack, 4)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.bad(Fail, "no "+s.Plugstack, add)
	case err != nil:
		return f.bad(Fail, err.Error(), "let root read it")
	case line == "":
		return f.bad(Fail, "no line with it", add)
	}
	if filepath.IsAbs(path) {
		if _, err := os.Stat(path); err != nil {
			return f.bad(Fail, err.Error(), "install the plugin there, built for Slurm "+s.Version)
		}
	}
	return f.good(line)
}
