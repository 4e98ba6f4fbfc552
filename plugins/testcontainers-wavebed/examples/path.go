package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func ask(method, path, body string) string {
	request, err := http.NewRequest(method, os.Getenv("WAVEBED_API")+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+os.Getenv("WAVEBED_TOKEN"))
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	found, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		panic(string(found))
	}
	return string(found)
}

func main() {
	lab := "/api/labs/" + os.Getenv("WAVEBED_LAB")
	ask("PATCH", lab+"/links", `{"rate": "5mbit"}`)
	ask("PATCH", lab+"/links", `{"outage": "100ms"}`)
	fmt.Println(ask("GET", lab, ""))
}
