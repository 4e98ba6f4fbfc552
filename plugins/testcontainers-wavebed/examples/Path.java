import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

class Path {
    static String ask(String method, String path, String body) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("WAVEBED_API") + path))
            .header("Authorization", "Bearer " + System.getenv("WAVEBED_TOKEN"))
            .header("Content-Type", "application/json")
            .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        var answer = HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
        if (answer.statusCode() != 200) throw new IllegalStateException(answer.body());
        return answer.body();
    }

    public static void main(String[] arguments) throws Exception {
        var lab = "/api/labs/" + System.getenv("WAVEBED_LAB");
        ask("PATCH", lab + "/links", "{\"rate\": \"5mbit\"}");
        ask("PATCH", lab + "/links", "{\"outage\": \"100ms\"}");
        System.out.println(ask("GET", lab, ""));
    }
}
