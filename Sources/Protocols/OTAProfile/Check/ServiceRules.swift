import OTAFirmware
import OTAUpdate

/// The rules of the sections "The service", "Info" and "Progress".
extension CheckRule {
    static let ofService = [
        CheckRule(
            "characteristics", "the-service", "Offers Info, Control, Data, Progress and Version",
            fix: "add the characteristic to the OTA service; compare its UUID byte by byte",
            start: .any, isNecessary: true,
            [
                .prepare { (memory) throws(Deviation) in
                    let missing = ProfileChannel.required.subtracting(memory.link.channels)
                    guard !missing.isEmpty else { return }
                    let names = missing.compactMap { ProfileDefinition().channelNames[$0] }.sorted()
                    throw Deviation("the service has no \(names.joined(separator: ", "))")
                }
            ]),
        CheckRule(
            "properties", "the-service", "The characteristics have the properties of the table",
            fix: "add the property to the declaration of the characteristic", start: .any,
            skipped: { $0.link.operations.isEmpty ? "this transport does not report properties" : nil },
            [
                .prepare { (memory) throws(Deviation) in
                    for (name, channel, operations) in properties {
                        let missing = operations.subtracting(memory.link.operations[channel] ?? [])
                        guard let first = missing.map(\.rawValue).min() else { continue }
                        throw Deviation("\(name) has no property '\(first)'")
                    }
                }
            ]),
        CheckRule(
            "not-subscribed", "control",
            "Refuses a write to Control with ATT error 0xFD while its notifications are off",
            fix: "answer the write with 0xFD if the host has not subscribed; a device with a bond may restore the "
                + "subscription: remove the bond and check again",
            start: .unsubscribed,
            [
                CheckStep({ _ in .write([7, 0, 0]) }) { (memory, outcome) throws(Deviation) in
                    switch outcome {
                    case .refused(let error):
                        memory.note = error.attributeError == nil ? "the ATT error of the refusal is unknown" : nil
                        guard let code = error.attributeError, code != 0xFD else { return 1 }
                        throw Deviation("the ATT error is 0x\(Hex.encode([code])), expected 0xfd")
                    case .silent: throw Deviation("the write got no ATT response")
                    default: throw Deviation("the device accepted the write")
                    }
                }
            ]),
        CheckRule(
            "subscriptions", "control", "Accepts subscriptions to Control and Progress",
            fix: "add a client characteristic configuration (0x2902) to both", isNecessary: true),
        CheckRule(
            "info", "info", "Info is a strict list of items with valid values",
            fix: "write the items in ascending order of type, each once, with the lengths of the table",
            isNecessary: true,
            [
                CheckStep({ _ in .read(ProfileChannel.info) }) { (memory, outcome) throws(Deviation) in
                    let bytes = try outcome.bytes("Info")
                    do throws(FrameError) {
                        memory.firstInfo = try DeviceInfo(parsing: bytes)
                    } catch { throw Deviation(error.context) }
                    memory.infoBytes = bytes
                    return 1
                }
            ]),
        CheckRule(
            "info-constant", "info", "Each read of Info on a connection returns the same list",
            fix: "compose the list once for each connection, at its start",
            [.prepare { $0.infoBytes = [] }, readInfo, readInfo]),
        CheckRule(
            "version", "the-service", "Version is SemVer text of 5 to 63 bytes",
            fix: "return MAJOR.MINOR.PATCH without a NUL at the end",
            [
                CheckStep({ _ in .read(ProfileChannel.version) }) { (memory, outcome) throws(Deviation) in
                    memory.version = try outcome.bytes("Version")
                    let text = String(decoding: memory.version, as: UTF8.self)
                    guard 5...63 ~= memory.version.count, SemanticVersion(text) != nil else {
                        throw Deviation("Version is not SemVer (\(Hex.encode(memory.version)))")
                    }
                    return 1
                }
            ]),
        CheckRule(
            "progress", "progress", "Progress of a new connection is idle, without an offset",
            fix: "return 12 bytes: state, status, next, offset and CRC; all 0 on a new connection",
            start: .newLink, isNecessary: true,
            [
                CheckStep({ _ in .read(ProfileChannel.progress) }) { (_, outcome) throws(Deviation) in
                    let value = try outcome.progressValue()
                    guard value.state == .idle, value.status == .ok,
                        value.position == Position(next: 0, offset: 0, crc: 0)
                    else {
                        throw Deviation(
                            "Progress has the state \(value.state), the status \(value.status.rawValue) and "
                                + value.position.text)
                    }
                    return 1
                }
            ]),
    ]

    private static let properties: [(String, Channel, Set<ChannelOperation>)] = [
        ("Info", ProfileChannel.info, [.read]), ("Control", ProfileChannel.control, [.write, .notify]),
        ("Data", ProfileChannel.data, [.writeWithoutResponse, .write]),
        ("Progress", ProfileChannel.progress, [.read, .notify]), ("Version", ProfileChannel.version, [.read]),
    ]

    private static let readInfo = CheckStep({ _ in .read(ProfileChannel.info) }) {
        (memory, outcome) throws(Deviation) in
        let bytes = try outcome.bytes("Info")
        guard memory.infoBytes.isEmpty || memory.infoBytes == bytes else {
            throw Deviation(
                "two reads returned different lists: \(Hex.encode(memory.infoBytes)) and \(Hex.encode(bytes))")
        }
        memory.infoBytes = bytes
        return 1
    }

    /// The rules that are checked at the end, even if a necessary rule has failed.
    static let atEnd = [
        CheckRule(
            "one-answer", "control", "Each request had exactly one answer, with its opcode and its tag",
            fix:
                "notify one answer for each request, with 0x80 | opcode and the tag of the request; none without a request",
            start: .any, isFinal: true,
            [
                .prepare { (memory) throws(Deviation) in
                    guard let first = memory.strayAnswers.first else { return }
                    throw Deviation(
                        "\(memory.strayAnswers.count) other notifications of Control, the first: \(Hex.encode(first))")
                }
            ]),
        CheckRule(
            "answer-form", "control", "Answers have a position only after BEGIN and SYNC with the status ok",
            fix: "notify opcode, tag and status: 3 bytes, and 10 more for a position", start: .any, isFinal: true,
            [
                .prepare { (memory) throws(Deviation) in
                    guard let first = memory.malformedAnswers.first else { return }
                    throw Deviation("an answer has \(first.count) bytes: \(Hex.encode(first))")
                }
            ]),
        CheckRule(
            "unchanged", "what-the-device-does", "The device runs the same image as before",
            fix: "the device must not change its running image, its counter or a partial upload by refused requests",
            start: .unsubscribed, isFinal: true,
            skipped: { $0.firstInfo == nil ? "Info could not be read" : nil },
            [
                CheckStep({ _ in .read(ProfileChannel.version) }) { (memory, outcome) throws(Deviation) in
                    guard try outcome.bytes("Version") == memory.version else { throw Deviation("Version has changed") }
                    return 1
                },
                CheckStep({ _ in .read(ProfileChannel.info) }) { (memory, outcome) throws(Deviation) in
                    let bytes = try outcome.bytes("Info")
                    guard var now = try? DeviceInfo(parsing: bytes), var first = memory.firstInfo else {
                        throw Deviation("Info is malformed now: \(Hex.encode(bytes))")
                    }
                    if memory.bundle != nil { (now.held, first.held) = (nil, nil) }
                    guard now == first else { throw Deviation("Info has changed: \(Hex.encode(bytes))") }
                    return 1
                },
            ]),
    ]
}
