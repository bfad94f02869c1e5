import BlueZ
import DBus
import Glibc

/// The process that a `LinkGuard` starts: it keeps account of the links that it is told of, and when the other end of its stdin is
/// gone, has bluetoothd end those that are left.
enum LinkGuardProcess {
    /// The whole command line. No person types it, and no help shows it.
    static let word = "--guard-links"

    /// The first byte of a packet; a device's path follows.
    enum Notice: UInt8 {
        case opened = 0x2B
        case ended = 0x2D
    }

    /// How long it may take to have links ended, in seconds.
    private static let limit: UInt32 = 5

    static func run() async {
        // Neither of the terminal, nor in the way of whoever unmounts a file system.
        setsid()
        _ = chdir("/")
        let links = listen()
        guard !links.isEmpty else { return }
        alarm(limit)
        try? await BlueZClient.endLinks(to: links)
    }

    /// Until the other end is gone: what is left then.
    private static func listen() -> Set<DBusObjectPath> {
        var links: Set<DBusObjectPath> = []
        var packet = [UInt8](repeating: 0, count: 512)
        while true {
            let count = recv(STDIN_FILENO, &packet, packet.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return links }
            let device = DBusObjectPath(String(decoding: packet[1..<count], as: UTF8.self))
            switch Notice(rawValue: packet[0]) {
            case .opened: links.insert(device)
            case .ended: links.remove(device)
            case nil: break
            }
        }
    }
}
