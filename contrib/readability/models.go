// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

package main

// The rows of the table that are not pronouns.
const (
	rowFunctions  = "function lines, median/p90/p99/max"
	rowLongFiles  = "files over 400 lines"
	rowWrapped    = "fmt.Errorf with %w"
	rowTests      = "lines in tests"
	rowOneWord    = "unexported functions with a one-word name"
	rowNameLength = "mean length of unexported functions' names"
	rowRiddles    = "types named by an adjective, participle or pronoun"
	rowMethods    = "methods of the largest type"
	rowPackage    = "largest package, files / lines"
	rowExamples   = "runnable Examples"
)

// model is a code base to compare with, at a certain commit.
type model struct {
	name   string
	counts map[string]string // by row
	tests  map[string]string // of test files, by row
}

// models were counted alike, test files apart and without generated files, at opencontainers/runc 76d9cf5,
// cilium/ebpf 5ba0b3b, restic/restic a80be14 and NVIDIA/nvidia-container-toolkit d34b304. The counts of test files are
// made by this program. The counts of all else were made by patterns, and are approximate.
var models = []model{
	{"runc", map[string]string{
		rowFunctions: "11/51/180/284", rowLongFiles: "12 of 138", rowWrapped: "70 %", rowTests: "30 %", rowOneWord: "17 %",
		rowNameLength: "13.1", "who/whom/whose": "0.06", "it": "10", "one/ones/those/others": "2.4", "nobody/somebody": "0",
		"what/whatever": "0.6", "nothing/none": "0.7",
		rowMethods: "59", rowPackage: "27 / 8.8k", rowExamples: "1",
	}, map[string]string{
		rowFunctions: "15/59/154/297", rowLongFiles: "4 of 40", rowOneWord: "15 %", rowNameLength: "12.2",
		"who/whom/whose": "0.00", "it": "5.3", "one/ones/those/others": "4.3", "nobody/somebody": "0",
		"what/whatever": "1.0", "nothing/none": "1.0",
	}},
	{"ebpf", map[string]string{
		rowFunctions: "7/39/126/807", rowLongFiles: "21 of 227", rowWrapped: "57 %", rowTests: "37 %", rowOneWord: "24 %",
		rowNameLength: "12.1", "who/whom/whose": "0.18", "it": "7", "one/ones/those/others": "1.6", "nobody/somebody": "0.02",
		"what/whatever": "0.1", "nothing/none": "0.2",
		rowMethods: "50", rowPackage: "25 / 9.9k", rowExamples: "23",
	}, map[string]string{
		rowFunctions: "18/54/127/264", rowLongFiles: "15 of 132", rowOneWord: "2 %", rowNameLength: "14.7",
		"who/whom/whose": "0.25", "it": "5.7", "one/ones/those/others": "3.0", "nobody/somebody": "0",
		"what/whatever": "0.2", "nothing/none": "0.0",
	}},
	{"restic", map[string]string{
		rowFunctions: "7/39/120/220", rowLongFiles: "32 of 339", rowWrapped: "43 %", rowTests: "43 %", rowOneWord: "15 %",
		rowNameLength: "13.2", "who/whom/whose": "0.12", "it": "8", "one/ones/those/others": "2.5", "nobody/somebody": "0",
		"what/whatever": "0.3", "nothing/none": "0.6",
		rowMethods: "57", rowPackage: "47 / 9.7k", rowExamples: "3",
	}, map[string]string{
		rowFunctions: "14/48/165/326", rowLongFiles: "21 of 220", rowOneWord: "8 %", rowNameLength: "14.8",
		"who/whom/whose": "0.20", "it": "4.2", "one/ones/those/others": "2.9", "nobody/somebody": "0",
		"what/whatever": "0.2", "nothing/none": "0.3",
	}},
	{"nvidia-ctk", map[string]string{
		rowFunctions: "7/30/76/168", rowLongFiles: "7 of 274", rowWrapped: "34 %", rowTests: "46 %", rowOneWord: "15 %",
		rowNameLength: "14.8", "who/whom/whose": "0.04", "it": "4", "one/ones/those/others": "0.5", "nobody/somebody": "0",
		"what/whatever": "0.2", "nothing/none": "0.3",
		rowMethods: "19", rowPackage: "21 / 3.4k", rowExamples: "0",
	}, map[string]string{
		rowFunctions: "55/183/507/2057", rowLongFiles: "16 of 113", rowOneWord: "3 %", rowNameLength: "15.5",
		"who/whom/whose": "0.00", "it": "0.7", "one/ones/those/others": "0.0", "nobody/somebody": "0",
		"what/whatever": "0.1", "nothing/none": "0.1",
	}},
}
