// Package fairhold is Fairhold from Go, in one file to copy: a lock with its fencing token, with the standard library alone (Go
// 1.19 or newer).
//
//	client := fairhold.NewClient("")                            // FAIRHOLD_ENDPOINT, or http://127.0.0.1:7171
//	err := client.WithLock(ctx, "deploy", 15*time.Second, func(ctx context.Context, lock *fairhold.Lock) error {
//		return client.Put(ctx, "/deployed", []byte("v1.7"), lock) // refused by the servers once the lock is another's
//	})
//
// The context of the function is cancelled as soon as the lock may be another's. A lock is a lease: it counts as held until the ttl
// after the last renewal that was answered, less a margin.
package fairhold

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	margin       = 300 * time.Millisecond
	answerWithin = 10 * time.Second
	waitMax      = 10 * time.Minute
)

// Refused says that the cluster refuses the request as it is. Code is for programs.
type Refused struct {
	Status               int
	Code, Detail, Advice string
}

func (r *Refused) Error() string {
	return strings.TrimSuffix(r.Detail+": "+r.Advice, ": ")
}

// Client speaks with one cluster. Many goroutines may use it.
type Client struct {
	urls    []string
	mutex   sync.Mutex
	cluster string
}

// NewClient takes the nodes' URLs for clients, with commas between them.
func NewClient(endpoints string) *Client {
	if endpoints == "" {
		endpoints = os.Getenv("FAIRHOLD_ENDPOINT")
	}
	if endpoints == "" {
		endpoints = "http://127.0.0.1:7171"
	}
	return &Client{urls: strings.Split(endpoints, ",")}
}

// Lock is held. Its token goes with every write that needs the lock: it is greater than that of every earlier holder.
type Lock struct {
	Name, grant string
	Token       uint64
}

// WithLock waits in the queue, runs work while it holds the lock, and gives it back.
func (c *Client) WithLock(ctx context.Context, name string, ttl time.Duration, work func(context.Context, *Lock) error) error {
	lock := &Lock{Name: name, grant: newKey()}
	// It ends with its ttl if this gets no answer.
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, _ = c.call(ctx, "DELETE", "/v1/grants/"+lock.grant, "", nil, nil)
	}()
	for {
		path := fmt.Sprintf("/v1/locks/%s?wait=%s&ttl=%dms", url.PathEscape(name), waitMax, ttl.Milliseconds())
		body, err := c.call(ctx, "POST", strings.ReplaceAll(path, "10m0s", "10m"), lock.grant, nil, nil)
		var refused *Refused
		if errors.As(err, &refused) && (refused.Code == "wait_timeout" || refused.Code == "grant_gone") {
			lock.grant = newKey()
			continue
		}
		if err != nil {
			return err
		}
		if err := json.Unmarshal(body, lock); err != nil {
			return err
		}
		break
	}
	held, lose := context.WithCancel(ctx)
	defer lose()
	// While it waited, the servers kept it alive; from here on, only a renewal of our own counts.
	until, err := c.renew(held, lock, ttl, time.Now().Add(ttl-margin))
	if err != nil {
		return fmt.Errorf("%s was lost as soon as it was acquired: %w", name, err)
	}
	go func() {
		defer lose()
		for err == nil {
			select {
			case <-held.Done():
				return
			case <-time.After(ttl / 3):
			}
			until, err = c.renew(held, lock, ttl, until)
		}
	}()
	return work(held, lock)
}

// renew tries until it works, is refused, or the lease is over; it returns until when the lock is believed in.
func (c *Client) renew(ctx context.Context, lock *Lock, ttl time.Duration, until time.Time) (time.Time, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	sent := time.Now()
	body, err := c.call(ctx, "POST", "/v1/grants/"+lock.grant+"/renew", "", nil, nil)
	// A renewal counts only if the answer names this grant.
	var answer struct{ ID string }
	if err == nil && (json.Unmarshal(body, &answer) != nil || answer.ID != lock.grant) {
		err = errors.New("the answer is for another grant")
	}
	return sent.Add(ttl - margin), err
}

// Put writes a value, with missing parents; with a lock, only while that lock is held.
func (c *Client) Put(ctx context.Context, path string, value []byte, lock *Lock) error {
	headers := map[string]string{}
	if lock != nil {
		headers["Fairhold-Fence"] = fmt.Sprintf("%s=%d", strings.ReplaceAll(url.QueryEscape(lock.Name), "+", "%20"), lock.Token)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	_, err := c.call(ctx, "PUT", "/v1/nodes/"+(&url.URL{Path: strings.TrimPrefix(path, "/")}).EscapedPath()+"?parents", newKey(), value, headers)
	return err
}

// call asks one node after the other, always with the same key, until there is a definite answer.
func (c *Client) call(ctx context.Context, method, path, key string, body []byte, headers map[string]string) ([]byte, error) {
	var why error
	for turn := 0; ctx.Err() == nil; turn++ {
		base := c.urls[turn%len(c.urls)]
		request, err := http.NewRequestWithContext(ctx, method, base+path, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		for name, value := range headers {
			request.Header.Set(name, value)
		}
		if key != "" {
			request.Header.Set("Idempotency-Key", key)
		}
		status, content, err := c.ask(request)
		if err == nil && status < 300 {
			return content, nil
		}
		if err == nil && status != 503 && status != 504 {
			refused := &Refused{Status: status, Detail: fmt.Sprintf("status %d", status)}
			_ = json.Unmarshal(content, refused)
			return nil, refused
		}
		why = fmt.Errorf("%s: status %d, %v", base, status, err)
		if (turn+1)%len(c.urls) == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	return nil, fmt.Errorf("no answer in time: %w (%v)", ctx.Err(), why)
}

// direct uses no proxy of the environment: that is for the internet.
var direct = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}

// ask sends one request. An answer counts only if it comes from the cluster that answered first.
func (c *Client) ask(request *http.Request) (int, []byte, error) {
	c.mutex.Lock()
	cluster := c.cluster
	c.mutex.Unlock()
	if cluster != "" {
		request.Header.Set("Fairhold-Cluster", cluster)
	}
	answer, err := direct.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	named := answer.Header.Get("Fairhold-Cluster")
	if answer.Header.Get("Fairhold-Request-Id") == "" || (cluster != "" && named != "" && named != cluster) {
		return 0, nil, errors.New("the answer is not from a node of this cluster")
	}
	if cluster == "" && named != "" {
		c.mutex.Lock()
		c.cluster = named
		c.mutex.Unlock()
	}
	return answer.StatusCode, content, err
}

// newKey makes a UUIDv7, before the request is sent: sending it again is the same request.
func newKey() string {
	var id [16]byte
	_, _ = rand.Read(id[6:])
	millis := time.Now().UnixMilli()
	for at := 0; at < 6; at++ {
		id[at] = byte(millis >> (40 - 8*at))
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
