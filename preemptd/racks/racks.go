// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package racks reads which nodes stand together, for the map of the web page. It reads Slurm's own description of
// the network: a rack is a switch or a block that has nodes.
package racks

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	slurmrest "github.com/singularity-slurm/singularity-slurm/slurmrestd-client"
)

// Load returns the rack of each node that a topology.conf or, if the name ends so, a topology.yaml names. A
// site without the file has no racks.
func Load(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if file == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	parse := parseConf
	if ext := filepath.Ext(file); ext == ".yaml" || ext == ".yml" {
		parse = parseYAML
	}
	all, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}

// parseConf reads lines as "SwitchName=s1 Nodes=n[1-16]" and "BlockName=b1 Nodes=n[1-16]". Switches of
// switches are no racks.
func parseConf(text []byte) (map[string]string, error) {
	all := map[string]string{}
	joined := bytes.ReplaceAll(text, []byte("\\\n"), []byte(" "))
	for line := range strings.SplitSeq(string(joined), "\n") {
		line, _, _ = strings.Cut(line, "#")
		var name, nodes string
		for _, field := range strings.Fields(line) {
			key, value, _ := strings.Cut(field, "=")
			switch strings.ToLower(key) {
			case "switchname", "blockname":
				name = value
			case "nodes":
				nodes = value
			}
		}
		if name == "" || nodes == "" {
			continue
		}
		if err := addRack(all, name, nodes); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// topology is an entry of a topology.yaml.
type topology struct {
	Name    string `yaml:"topology"`
	Default bool   `yaml:"cluster_default"`
	Tree    struct {
		Switches []struct{ Switch, Nodes string }
	}
	Block struct {
		Blocks []struct{ Block, Nodes string }
	}
}

// parseYAML reads the default topology of the cluster, or the first topology if no topology is the default.
func parseYAML(text []byte) (map[string]string, error) {
	var topologies []topology
	if err := yaml.Unmarshal(text, &topologies); err != nil || len(topologies) == 0 {
		return nil, err
	}
	chosen := &topologies[0]
	for i := range topologies {
		if topologies[i].Default {
			chosen = &topologies[i]
			break
		}
	}
	all := map[string]string{}
	var err error
	for _, s := range chosen.Tree.Switches {
		err = errors.Join(err, addRack(all, s.Switch, s.Nodes))
	}
	for _, b := range chosen.Block.Blocks {
		err = errors.Join(err, addRack(all, b.Block, b.Nodes))
	}
	return all, err
}

// addRack adds the nodes of a rack. A node that several racks have stays in the first.
func addRack(all map[string]string, name, nodes string) error {
	hosts, err := slurmrest.Hosts(nodes)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, host := range hosts {
		if _, known := all[host]; !known {
			all[host] = name
		}
	}
	return nil
}
