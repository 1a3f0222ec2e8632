// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are command lines that help and the manual show, by command.
var examples = map[string][]string{
	"singctl":             {"singctl show 812", "singctl checkpoint 812", "singctl migrate 812 --away n3"},
	"singctl check":       {"singctl check train.sh"},
	"singctl checkpoint":  {"singctl checkpoint 812"},
	"singctl checkpoints": {"singctl checkpoints", "singctl checkpoints 812 --json"},
	"singctl delete":      {"singctl delete 812/3 812/4"},
	"singctl doctor":      {"singctl doctor", "singctl doctor --all", "singctl doctor --controller"},
	"singctl drain":       {"singctl drain n[1-4]"},
	"singctl export":      {"singctl export 812/3 checkpoint-3"},
	"singctl gc":          {"singctl gc"},
	"singctl history":     {"singctl history", "singctl history 812", "singctl history --action 40"},
	"singctl hold":        {"singctl hold 812"},
	"singctl release":     {"singctl release 812"},
	"singctl jobs":        {"singctl jobs"},
	"singctl migrate":     {"singctl migrate 812 --to n5,n6", "singctl migrate 812 --away n3"},
	"singctl policy":      {"singctl policy list"},
	"singctl policy list": {"singctl policy list"},
	"singctl policy record": {
		"singctl policy record monday.snapshot",
	},
	"singctl policy test": {"singctl policy test"},
	"singctl preempt":     {"singctl preempt 812"},
	"singctl qos":         {"singctl qos 812 basic"},
	"singctl resize":      {"singctl resize 812 --gpus 4"},
	"singctl resume":      {"singctl resume 812"},
	"singctl show":        {"singctl show 812", "singctl show 812_3"},
	"singctl status":      {"singctl status"},
	"singctl summary":     {"singctl summary 812", "singctl summary 812 --json"},
	"singctl token":       {"singctl token"},
	"singctl top":         {"singctl top"},
	"singctl verify":      {"singctl verify", "singctl verify 812/3"},
	"singctl version":     {"singctl version"},
}

// setExamples gives each command its examples.
func setExamples(root *cobra.Command) {
	for _, c := range documentedCommands(root) {
		if all := examples[c.CommandPath()]; len(all) > 0 {
			c.Example = "  " + strings.Join(all, "\n  ")
		}
	}
}
