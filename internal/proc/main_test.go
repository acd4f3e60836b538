package proc_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// helperEnv makes the test binary act as one of the processes below instead of
// running tests.
const helperEnv = "PROC_TEST_HELPER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(helperEnv); mode != "" {
		helper(mode)
		return
	}
	os.Exit(m.Run())
}

// helper is what the processes under test do. They inherit the writing end of
// their test's FIFO, so that the test sees the end of the last one as the end of
// the file.
func helper(mode string) {
	switch mode {
	case "wait": // until a signal ends it
		fmt.Println("waiting")
		time.Sleep(time.Hour)
	case "stubborn": // SIGTERM does not end it
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("waiting")
		time.Sleep(time.Hour)
	case "cleanup": // ends after SIGTERM, in its own way
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		fmt.Println("ready")
		<-c
		fmt.Println("cleaned")
	case "escape", "escape-quiet": // starts a waiting process in a session of its own, then ends
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helperEnv+"=wait")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		fifo, err := os.OpenFile(os.Getenv("FIFO"), os.O_WRONLY, 0)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		cmd.ExtraFiles = []*os.File{fifo}
		if mode == "escape" {
			cmd.Stdout = os.Stdout // keeps the pipe of the run open
		}
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if file := os.Getenv("PIDFILE"); file != "" {
			if err := os.WriteFile(file, fmt.Append(nil, cmd.Process.Pid), 0o600); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
		fmt.Println("escaped")
	}
}
