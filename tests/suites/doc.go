// SPDX-FileCopyrightText: 2026 The singularity-slurm authors
// SPDX-License-Identifier: Apache-2.0

// Package suites builds the programs of other people's CUDA suites with nvcc, runs each on software GPUs by `proxyd run`,
// and writes docs/cuda-suites.md. No file of a suite is in this repository.
//
// The samples of Debian's package nvidia-cuda-samples come with the toolkit (contrib/cuda-software/fetch toolkit). Other
// suites are in a folder that -suites names: each suite is a folder NAME, with its description NAME.suite beside it. A
// description has lines "key: text"; comments begin with "#". The keys are:
//
//	what        a description of the suite, for the page
//	folder      the suite's folder, if it is not the folder NAME beside the description. {cuda} is the toolkit's
//	programs    patterns, as of a shell, of files below the suite's folder. Each match is a program, which is built and
//	            run in the folder of that file. The program's name is that of the file without its extension, or that of
//	            the folder if the file is a Makefile
//	graphics    a regular expression: a program of which the file or the folder matches needs a
//	            screen, and is only counted
//	libraries   Debian packages of libraries with which the program is compiled, linked and run. The test fetches them
//	            (contrib/cuda-software/fetch libraries) where there are such a line and a program to be built
//	build       a shell command. {cuda} is the folder of the toolkit (CUDA_PATH), {file} the matched file's name, {name}
//	            the program's name, {gencode} the options by which nvcc puts PTX into a program
//	run         the program and its arguments, without quotes; ./{name} if there is no such line
//	arguments   lists of further arguments, separated by ";": the program is run with each, and has a row for each
//	devices     how many software GPUs there are; 1 if there is no such line
//	memory      how much memory each of them has; 4G if there is no such line
//	limit       how much time of the processors a run may take; 1m if there is no such line. If the work of a program
//	            is large by its own design, the program may have a limit of its own; its note says how large
//	right       a regular expression: the output of a program that has found its results right
//	wrong       a regular expression: the output of a program that has found its results wrong
//	declines    a regular expression: the output of a program that lacks something and does not try
//	refusal     a regular expression: the words with which a program reports that a call was refused. If a call of the
//	            program was not covered, lines with these words are no words of a wrong result
//	expect      a file of the suite, relative to the program's folder: the program's output. Without right, wrong and
//	            expect, the exit code decides
//	ignore      a regular expression: lines that expect does not compare
//	note        the page's text about a program
//	program     a program's name: the lines behind it, up to the next such line, are for this program alone
package suites
