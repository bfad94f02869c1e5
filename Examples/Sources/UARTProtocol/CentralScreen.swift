public import BlueZ
import TerminalText

/// The central's screen: a list of devices, or the conversation with one device. It is a value without a terminal and without a link:
/// ``handle(_:)`` changes the state and returns the next action of the program, and ``lines`` is the text to show.
public struct CentralScreen: Sendable {
    public struct Device: Sendable, Hashable {
        public var address: BluetoothAddress
        public var name: String
        public var rssi: Int

        public init(address: BluetoothAddress, name: String, rssi: Int) {
            self.address = address
            self.name = shown(name)
            self.rssi = rssi
        }
    }

    public enum Event: Sendable {
        case key(Character)
        case found(Device)
        case disappeared(BluetoothAddress)
        case session(CentralSession.Event)
        /// The image was saved in this file.
        case saved(file: String)
        /// The scan has failed, and starts again. The text is the reason.
        case scanFailed(String)
        /// An action has failed. The text is the reason.
        case failed(String)
        /// The link has ended, and the program connects again after this time.
        case reconnecting(reason: String, after: Duration)
        /// The program does not connect again. The text is the reason; nil: the user ended the link. The peripheral has not confirmed this
        /// number of texts and requests.
        case ended(reason: String?, undelivered: Int)
    }

    public enum Action: Sendable, Hashable {
        case connect(Device)
        case send(String)
        case toggle(Bool)
        case getImage, disconnect, quit
    }

    private enum Mode: Hashable {
        case list
        case connecting(Device), ready(Device)
        case waiting(Device, String)
    }

    private static let logLength = 8
    /// The longest text that one message carries, in bytes.
    public static let longestLine = Channel.longestMessage - 1
    private static let full = "The line is full: \(longestLine) bytes. The last characters are not in the line."

    private var mode = Mode.list
    /// The found devices. New devices are at the end, so that no device moves while the user selects one.
    private var devices: [Device] = []
    /// The address of the device to which Return connects. It changes only by a key. So Return never connects to a device that has moved to
    /// this place.
    private var selected: BluetoothAddress?
    private var awaited: BluetoothAddress?
    private var filter = ""
    private var typed = ""
    private var log: [String] = []
    private var toggle = false
    private var progress: (received: Int, size: Int)?

    /// - Parameter filter: only devices with this text in their name are in the list. The user can change it.
    /// - Parameter awaited: the address of a device to which the program connects as soon as the device is found.
    public init(filter: String = "", awaiting awaited: BluetoothAddress? = nil) {
        self.filter = filter
        self.awaited = awaited
    }

    /// Changes the state.
    ///
    /// - Returns: the action of the program. Nil: no action.
    public mutating func handle(_ event: Event) -> Action? {
        switch event {
        case .key(let key): return press(key)
        case .found(let device):
            if let index = devices.firstIndex(where: { $0.address == device.address }) {
                devices[index] = device
            } else {
                devices.append(device)
            }
            selected = selected ?? listed.first?.address
            if mode == .list, device.address == awaited { return connect(to: device) }
        case .disappeared(let address): devices.removeAll { $0.address == address }
        case .scanFailed(let reason): (devices, log) = ([], [reason])
        case .session(let event): show(event)
        case .saved(let file): add("Saved in \(file).")
        case .failed(let reason): add(reason)
        case .reconnecting(let reason, let wait):
            guard let device else { break }
            add("Lost the link: \(reason).")
            mode = .waiting(device, "Connecting again in \(wait / .seconds(1)) s…")
        case .ended(let reason, let undelivered):
            mode = .list
            (devices, selected) = ([], nil)
            log = (reason.map { [$0] } ?? []) + (undelivered > 0 ? ["Messages not confirmed: \(undelivered)."] : [])
            (typed, toggle, progress) = ("", false, nil)
        }
        return nil
    }

    /// The device of the conversation.
    private var device: Device? {
        switch mode {
        case .list: nil
        case .connecting(let device), .ready(let device), .waiting(let device, _): device
        }
    }

    private mutating func show(_ event: CentralSession.Event) {
        switch event {
        case .ready:
            guard let device else { return }
            mode = .ready(device)
            add("Hello → Hello ack")
        case .text(let text): add("< \(shown(text))")
        case .toggle(let on): toggle = on
        case .progress(let received, let size): progress = (received, size)
        case .image(let bytes, let digest):
            progress = nil
            add("Image: \(bytes.count) bytes, SHA-256 \(digest.description.prefix(16))…")
        case .imageFailed(let error):
            progress = nil
            add("\(error)")
        case .refused(let refusal):
            if refusal == .noImage { progress = nil }
            add("Refused: \(refusal)")
        }
    }

    private mutating func add(_ line: String) { log = (log + [line]).suffix(Self.logLength) }

    // MARK: - Keys

    private mutating func press(_ key: Character) -> Action? {
        if key == "\u{04}" { return .quit }
        if mode == .list { return pressInList(key) }
        switch key {
        case "\n", "\r":
            // A line that is not sent remains, so that the user can send it later.
            let action = enter(typed)
            if action != nil { typed = "" }
            return action
        default:
            edit(\.typed, key)
            return nil
        }
    }

    private mutating func pressInList(_ key: Character) -> Action? {
        switch key {
        case "\t":
            let list = listed
            let index = list.firstIndex { $0 == target } ?? -1
            if !list.isEmpty { selected = list[(index + 1) % list.count].address }
        case "\n", "\r":
            if let target { return connect(to: target) }
        default:
            edit(\.filter, key)
            selected = (target ?? listed.first)?.address
        }
        return nil
    }

    private mutating func connect(to device: Device) -> Action {
        mode = .connecting(device)
        awaited = nil
        log = []
        return .connect(device)
    }

    /// Adds a line to the log, but not twice in a row.
    private mutating func note(_ line: String) { if log.last != line { add(line) } }

    private mutating func edit(_ line: WritableKeyPath<Self, String>, _ key: Character) {
        if key == "\u{7F}" {
            _ = self[keyPath: line].popLast()
        } else if key == "\u{15}" {
            self[keyPath: line] = ""
        } else if key.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F }) {
            guard self[keyPath: line].utf8.count + key.utf8.count <= Self.longestLine else { return note(Self.full) }
            self[keyPath: line].append(key)
        }
    }

    private mutating func enter(_ line: String) -> Action? {
        switch (line, mode) {
        case ("", _): return nil
        case ("/disconnect", _): return .disconnect
        case (_, .connecting), (_, .waiting), (_, .list):
            note("Not sent: there is no link. Press Return later, or Control-U and /disconnect.")
            return nil
        case ("/toggle", .ready): return .toggle(!toggle)
        case ("/image", .ready): return .getImage
        case (_, .ready):
            add("> \(line)")
            return .send(line)
        }
    }

    // MARK: - Text

    /// The devices whose name contains the filter, in the order in which they were found.
    private var listed: [Device] {
        devices.filter { filter.isEmpty || $0.name.lowercased().contains(filter.lowercased()) }
    }

    /// The device to which Return connects. Nil: the selected device has disappeared, and the user has not selected another one.
    private var target: Device? { listed.first { $0.address == selected } }

    /// All lines.
    public var lines: [String] { lines(height: .max) }

    /// Returns the lines to show. A list that is higher than the terminal has only the devices around the selected one.
    public func lines(height: Int) -> [String] {
        switch mode {
        case .list: list(height)
        case .connecting(let device): conversation(device, "connecting…")
        case .waiting(let device, let text): conversation(device, text)
        case .ready(let device): conversation(device, "toggle \(toggle ? "on" : "off")")
        }
    }

    private func list(_ height: Int) -> [String] {
        let (list, target) = (listed, target)
        let count = min(list.count, max(1, height - log.count - 4))
        let selected = list.firstIndex { $0 == target } ?? 0
        let start = min(max(0, selected - count / 2), list.count - count)
        let rows = list[start..<start + count].map { device in
            "\(device == target ? ">" : " ") \(device.name)  \(device.address)  \(device.rssi) dBm"
        }
        let cut = count < list.count ? "Devices \(start + 1) to \(start + count) of \(list.count)" : ""
        return log + ["Name filter: \(filter)_", cut] + rows
            + ["", "Tab: next device   Return: connect   Control-D: quit"]
    }

    private func conversation(_ device: Device, _ state: String) -> [String] {
        let bar = progress.map { ["Image: \($0.received * 100 / max(1, $0.size)) % of \($0.size) bytes"] } ?? []
        return ["\(device.name)  \(device.address)  \(state)", ""] + log + bar
            + ["", "\(typed)_", "", "/toggle   /image   /disconnect   Control-D: quit"]
    }
}
