import COTADevice

/// A position: `[next u16][offset u32][CRC-32 u32]`.
struct Position: Equatable {
    var next: UInt16
    var offset: Int
    var crc: UInt32

    init(next: UInt16, offset: Int, crc: UInt32) {
        self.next = next
        self.offset = offset
        self.crc = crc
    }

    init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == 10 else { return nil }
        next = UInt16(number(bytes.prefix(2)))
        offset = Int(number(bytes.dropFirst(2).prefix(4)))
        crc = number(bytes.dropFirst(6))
    }
}

/// The host of the tests. Each call polls the core until it has no more work.
extension Bench {
    /// Connects and subscribes.
    func connect(_ connection: UInt16 = 1, control: Bool = true, progress: Bool = true) {
        ota_device_connected(device, connection, now)
        ota_device_subscribed(device, connection, OTA_CONTROL, control, now)
        ota_device_subscribed(device, connection, OTA_PROGRESS, progress, now)
        settle()
    }

    func disconnect(_ connection: UInt16 = 1) {
        ota_device_disconnected(device, connection, now)
        settle()
    }

    func reconnect() {
        disconnect()
        connect()
    }

    @discardableResult
    func write(control bytes: [UInt8], by connection: UInt16 = 1) -> ota_att_error {
        let error = ota_device_write_control(device, connection, bytes, UInt16(bytes.count), now)
        settle()
        return error
    }

    func write(data bytes: [UInt8], by connection: UInt16 = 1) {
        ota_device_write_data(device, connection, bytes, UInt16(bytes.count), now)
        settle()
    }

    func read(_ value: ota_characteristic, by connection: UInt16 = 1, from offset: Int = 0, upTo capacity: Int = 512)
        -> [UInt8]?
    {
        var bytes = [UInt8](repeating: 0, count: capacity)
        var count: UInt16 = 0
        let error = ota_device_read(device, connection, value, UInt16(offset), &bytes, UInt16(capacity), &count)
        return error == OTA_ATT_OK ? Array(bytes.prefix(Int(count))) : nil
    }

    /// Returns and removes the values that were notified since the last call.
    func heard(_ characteristic: ota_characteristic, by connection: UInt16 = 1) -> [[UInt8]] {
        let values = notifications.filter { $0.connection == connection && $0.characteristic == characteristic }
        notifications.removeAll { $0.connection == connection && $0.characteristic == characteristic }
        return values.map(\.bytes)
    }

    /// Writes a request and returns status and results of its answer. Empty if there is not exactly one matching answer.
    @discardableResult
    func request(_ opcode: UInt8, _ arguments: [UInt8] = [], by connection: UInt16 = 1) -> [UInt8] {
        _ = heard(OTA_CONTROL, by: connection)
        tag &+= 1
        guard write(control: [opcode, tag] + arguments, by: connection) == OTA_ATT_OK else { return [] }
        let answers = heard(OTA_CONTROL, by: connection)
        guard answers.count == 1, answers[0].starts(with: [0x80 | opcode, tag]) else { return [] }
        return Array(answers[0][2...])
    }

    @discardableResult
    func request(_ opcode: ota_opcode, _ arguments: [UInt8] = [], by connection: UInt16 = 1) -> ota_status? {
        request(UInt8(opcode.rawValue), arguments, by: connection).first.map { ota_status(UInt32($0)) }
    }

    static func beginArguments(_ object: ota_object, _ bytes: [UInt8], from: UInt32 = 0) -> [UInt8] {
        [UInt8(object.rawValue)] + little(UInt32(bytes.count)) + little(from) + Crypto.sha256(bytes).prefix(8)
    }

    /// Sends BEGIN and returns the position, or nil if the status is not OK.
    func begin(_ object: ota_object, _ bytes: [UInt8], from: UInt32 = 0, by connection: UInt16 = 1) -> Position? {
        let arguments = Self.beginArguments(object, bytes, from: from)
        return position(request(UInt8(OTA_BEGIN.rawValue), arguments, by: connection))
    }

    func sync(_ sequence: UInt16) -> Position? { position(request(UInt8(OTA_SYNC.rawValue), little(sequence))) }

    private func position(_ answer: [UInt8]) -> Position? { answer.first == 0 ? Position(answer.dropFirst()) : nil }

    /// Sends the bytes of the object from a position, in chunks. Returns the sequence after the last chunk.
    @discardableResult
    func send(
        _ object: [UInt8], at position: Position, upTo end: Int? = nil, chunk: Int = 242, by connection: UInt16 = 1
    ) -> UInt16 {
        var sequence = position.next
        var offset = position.offset
        while offset < end ?? object.count {
            let count = min(chunk, (end ?? object.count) - offset)
            write(data: little(sequence) + object[offset..<offset + count], by: connection)
            sequence &+= 1
            offset += count
        }
        return sequence
    }

    /// Sends an envelope and FINISH. Returns the status of FINISH.
    @discardableResult
    func submit(_ envelope: [UInt8], by connection: UInt16 = 1) -> ota_status? {
        guard let position = begin(OTA_OBJECT_ENVELOPE, envelope, by: connection) else { return nil }
        send(envelope, at: position, by: connection)
        return request(OTA_FINISH, by: connection)
    }

    /// Boots the device and brings it into a state with `release`. In the state *image* it has received one chunk.
    func bring(to state: ota_state, _ release: BenchRelease = BenchRelease()) {
        settings.onTrial = state == OTA_STATE_TRIAL
        boot()
        connect()
        if state == OTA_STATE_ENVELOPE { _ = begin(OTA_OBJECT_ENVELOPE, release.envelope) }
        if [OTA_STATE_ACCEPTED, OTA_STATE_IMAGE, OTA_STATE_VERIFIED].contains(state) { submit(release.envelope) }
        if [OTA_STATE_IMAGE, OTA_STATE_VERIFIED].contains(state),
            let position = begin(OTA_OBJECT_IMAGE, release.image)
        {
            send(release.image, at: position, upTo: state == OTA_STATE_IMAGE ? 242 : nil)
        }
        if state == OTA_STATE_VERIFIED { request(OTA_FINISH) }
        notifications = []
    }

    /// Reads Progress: state, status and position.
    var progress: (state: UInt8, status: UInt8, position: Position?)? {
        guard let bytes = read(OTA_PROGRESS), bytes.count == 12 else { return nil }
        return (bytes[0], bytes[1], Position(bytes[2...]))
    }
}
