import ArgumentParser
import BlueZ
import ChatProtocol
import ExampleSupport
import Glibc
import TerminalText

@main
struct BLEChat: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ble-chat", abstract: "Chat with another peer over Bluetooth LE.",
        discussion: """
            On a terminal, type the number of a peer, and then messages. Otherwise, each line of standard input is the name of \
            a peer or a message, and each line of standard output is an entry of the history. With --with, no line is a name. At \
            the end of standard input, the program quits after the last message has arrived.

            /peers lists the peers, /leave leaves the chat, /quit quits.
            The exit code is 1 if a message has not arrived.

            ble-chat --name Alice                              shows the peers in range
            printf 'hello\\n' | ble-chat --name Alice --with Bob  sends one message to Bob
            """)

    @Option(help: "The adapter, such as hci1 (default: the first powered adapter).")
    var adapter: String?

    @Option(help: "The advertised name: 1 to 20 bytes (default: $USER, if it has this length, or peer).")
    var name = getenv("USER").map { String(cString: $0) }.flatMap { isName($0) ? $0 : nil } ?? "peer"

    @Option(help: "The name of the session. Only peers with the same session can chat.")
    var session = "public"

    @Option(help: "Wait for the peer with this name or address, and chat only with this peer.")
    var with: String?

    @Flag(help: "Encrypt the link. Both users compare a number once. Both peers need this option.")
    var secure = false

    func validate() throws {
        if !Self.isName(name) {
            throw ValidationError("'\(shown(name))' is not a name of 1 to 20 bytes; hint: --name NAME")
        }
    }

    private static func isName(_ name: String) -> Bool { 1...20 ~= name.utf8.count && shown(name) == name }

    func run() async throws {
        // The signals have handlers before the terminal changes, so that each signal restores it.
        try await withClient { client in
            guard isatty(STDIN_FILENO) == 1 else { return try await chat(client, nil) }
            try await Terminal.with(showsCursor: true, hint: "ble-chat < FILE") { try await chat(client, $0) }
        }
    }

    private func chat(_ client: BlueZClient, _ terminal: Terminal?) async throws {
        let messenger = Messenger(.random(), Session(session), wanted: with, isPiped: terminal == nil)
        let program = ChatProgram(adapter: adapter, name: name, isSecure: secure, terminal, messenger)
        let count = try await program.run(client)
        guard count > 0 else { return }
        let (subject, object) = count == 1 ? ("message was", "it") : ("messages were", "them")
        throw Undelivered(
            "\(count) \(subject) not delivered; hint: send \(object) again when the other peer is in range")
    }
}
