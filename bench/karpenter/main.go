// Command karpenter puts snapshots to Karpenter's own provisioning scheduler, as a yardstick for ours.
//
//	karpenter -catalog CATALOG.json [-plan PLAN.json] [-limit 5m] SNAPSHOT.json
//	karpenter -serve < requests > answers
//
// A snapshot is a List of Kubernetes objects, as kubectl prints it in JSON; a catalogue is what `outrigger plan
// --catalog` reads. With -serve each line of the input is a request, and each line of the output its answer.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// A request of -serve. Snapshot is the path of a file, as a string, or the List itself.
type request struct {
	Snapshot json.RawMessage `json:"snapshot"`
	Catalog  string          `json:"catalog"`
	// Whether the answer shall carry the plan.
	Plan bool `json:"plan"`
	// Whether preferences are left aside, as PREFERENCE_POLICY=Ignore does.
	IgnorePreferences bool `json:"ignorePreferences"`
	// How long Solve may take, in seconds; without a limit where 0.
	LimitSeconds float64 `json:"limitSeconds"`
}

func main() {
	ctrllog.SetLogger(logr.Discard())
	catalog := flag.String("catalog", "", "the catalogue's file")
	plan := flag.String("plan", "", "write the plan to this file")
	limit := flag.Duration("limit", 0, "how long Solve may take; 0 is without a limit")
	serve := flag.Bool("serve", false, "answer requests from standard input")
	flag.Parse()
	var err error
	switch {
	case *serve:
		err = answerAll(os.Stdin, os.Stdout)
	case flag.NArg() == 1 && *catalog != "":
		err = answerOne(flag.Arg(0), *catalog, *plan, *limit)
	default:
		err = errors.New("give -catalog and one snapshot, or -serve; see -help")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
}

func answerOne(snapshot, catalog, plan string, limit time.Duration) error {
	path, err := json.Marshal(snapshot)
	if err != nil {
		return err
	}
	shelf := catalogs{}
	answer, err := decide(request{Snapshot: path, Catalog: catalog, Plan: plan != "", LimitSeconds: limit.Seconds()}, shelf)
	if err != nil {
		return err
	}
	if plan != "" {
		text, err := json.Marshal(answer.Plan)
		if err != nil {
			return err
		}
		if err := os.WriteFile(plan, text, 0o644); err != nil {
			return err
		}
		answer.Plan = nil
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// One line for each line, and an answer with "error" where a request fails: the others shall go on.
func answerAll(in io.Reader, out io.Writer) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	answers := json.NewEncoder(out)
	shelf := catalogs{}
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			var asked request
			var given *answer
			fault := json.Unmarshal(line, &asked)
			if fault == nil {
				given, fault = decide(asked, shelf)
			}
			if fault != nil {
				given = &answer{Error: fault.Error()}
			}
			if err := answers.Encode(given); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
