/*
 * A lock in Java 17 with nothing but the standard library: java Deploy.java VALUE writes a value to /deployed under the lock `deploy`.
 *
 * A thread renews the lock at a third of its ttl. The lock counts as held until the ttl after the last renewal that was answered,
 * less a margin, counted from before that renewal was sent. The clock of Java does not count the time in which the machine was
 * suspended. So the write carries the fencing token, and the cluster refuses it if another holds the lock by then.
 */
import java.net.URI;
import java.net.http.*;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.*;
import java.util.regex.Pattern;

public class Deploy {
    static final String[] NODES = System.getenv().getOrDefault("FAIRHOLD_ENDPOINT", "http://127.0.0.1:7171").split(",");
    static final HttpClient HTTP = HttpClient.newHttpClient();
    static final long TTL = 15_000, MARGIN = 300;
    static volatile long validUntil;

    record Answer(int status, String body) {
        String field(String name) {
            var found = Pattern.compile("\"" + name + "\":\"?([^,\"}]*)").matcher(body);
            return found.find() ? found.group(1) : "";
        }
    }

    /** A UUIDv7. */
    static String newKey() {
        var random = UUID.randomUUID();
        long high = System.currentTimeMillis() << 16 | 0x7000 | random.getMostSignificantBits() & 0xfff;
        return new UUID(high, random.getLeastSignificantBits()).toString();
    }

    static long now() { return System.nanoTime() / 1_000_000; }

    /** Asks one node after the other, with the same key, until there is a definite answer. */
    static Answer call(String method, String path, String key, String fence, String body, long within) throws Exception {
        long until = now() + within;
        for (int turn = 0; now() < until; turn++) {
            var request = HttpRequest.newBuilder(URI.create(NODES[turn % NODES.length] + path))
                .method(method, HttpRequest.BodyPublishers.ofString(body)).timeout(Duration.ofMillis(Math.max(1, until - now())));
            if (!key.isEmpty()) request.header("Idempotency-Key", key);
            if (!fence.isEmpty()) request.header("Fairhold-Fence", fence);
            try {
                var answer = HTTP.send(request.build(), HttpResponse.BodyHandlers.ofString());
                boolean isOurs = answer.headers().firstValue("Fairhold-Cluster").isPresent();
                if (isOurs && answer.statusCode() != 503 && answer.statusCode() != 504)
                    return new Answer(answer.statusCode(), answer.body());
            } catch (java.io.IOException error) {
                // The next node may answer.
            }
            Thread.sleep(100);
        }
        return new Answer(0, "{}");
    }

    static boolean renew(String grant) throws Exception {
        long sent = now();
        var answer = call("POST", "/v1/grants/" + grant + "/renew", "", "", "", TTL / 3);
        if (answer.status() == 200 && answer.field("id").equals(grant)) validUntil = sent + TTL - MARGIN;
        else if (answer.status() != 0) validUntil = sent;    // it has ended
        return now() < validUntil;
    }

    static void check() {
        if (now() >= validUntil) throw new IllegalStateException("the lock may be lost");
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 1) {
            System.err.println("usage: java Deploy.java VALUE");
            System.exit(2);
        }
        String grant = newKey();
        var timer = Executors.newSingleThreadScheduledExecutor();
        try {
            var held = call("POST", "/v1/locks/deploy?wait=10m&ttl=15s", grant, "", "", 620_000);
            if (held.status() != 200 || !renew(grant)) throw new IllegalStateException("not acquired: " + held.body());
            timer.scheduleAtFixedRate(() -> { try { renew(grant); } catch (Exception error) { validUntil = 0; } },
                TTL / 3, TTL / 3, TimeUnit.MILLISECONDS);
            check();
            var put = call("PUT", "/v1/nodes/deployed?parents", newKey(), "deploy=" + held.field("token"), arguments[0], 10_000);
            System.out.println("status " + put.status());
        } finally {
            timer.shutdown();
            call("DELETE", "/v1/grants/" + grant, "", "", "", 5_000);
        }
    }
}
