import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

/// Sessions with a played firmware loader of a device with one slot.
@Suite("The firmware loader of a device with one slot") struct SMPLoaderTests {
    private let image: SMPImage
    private let digest: [UInt8]

    init() throws {
        let verified = try ExampleImage.make()
        image = SMPImage(verified)
        digest = verified.listed().digest
    }

    /// The list of a loader that lists only the application, as if the application ran (sdk-nrf-bm, commit 8cbd0cf5).
    private func list(_ digest: [UInt8]) -> [String: CBORValue] {
        let flags = ["bootable", "confirmed", "active"].map { ($0, CBORValue.bool(true)) }
        let fields = [("slot", CBORValue(0)), ("version", .text("1.2.3")), ("hash", .bytes(digest))] + flags
        return ["images": .array([.map(Dictionary(fields) { first, _ in first })])]
    }

    /// Plays a loader that has the image of the push, from an earlier upload. It never leaves.
    private func play(resets: PlayedDevice.Reply, _ mode: PlayedDevice.Reply = .fields(["mode": CBORValue(7)]))
        -> PlayedDevice
    {
        var offset = 0
        return PlayedDevice(
            .push([image], UpdateOptions(ending: .permanent)), isDatagram: true
        ) { frame, _ in
            switch (frame.group, frame.command) {
            case (0, 8): return mode
            case (1, 0) where !frame.isMark: return .fields(list(digest))
            case (1, 1):
                let fields = frame.fields
                offset = (fields["off"]?.integer ?? 0) + (fields["data"]?.bytes?.count ?? 0)
                return .fields(["off": CBORValue(offset)])
            case (0, 5): return resets
            default: return .fields(["rc": CBORValue(8)])
            }
        }
    }

    @Test("a loader that lists the image as active and confirmed receives the image, and its return is an error")
    func isNotAlreadyRunning() {
        let device = play(resets: .fields([:]))
        #expect(device.error == .imageNotRunning, "\(String(describing: device.outcome))")
        #expect(device.frames.contains { $0.isUpload })
        #expect(device.frames.allSatisfy { !$0.isMark })
    }

    @Test("without an acknowledged restart, a loader that still answers ends with did-not-return")
    func isNotAcknowledged() {
        #expect(play(resets: .silence).error == .didNotReturn)
    }

    @Test("the mode is asked again while a loader is busy, and its list does not count before")
    func busyMode() {
        var left = 5
        let device = PlayedDevice(.push([image], UpdateOptions(ending: .permanent)), isDatagram: true) { frame, _ in
            guard frame.group == 0, frame.command == 8, left > 0 else { return .fields(answer(frame)) }
            left -= 1
            return .fields(["rc": CBORValue(10)])
        }
        #expect(device.error == .imageNotRunning && left == 0, "\(String(describing: device.outcome))")
        #expect(device.frames.contains { $0.isUpload })
    }

    @Test("a device that is silent to the mode and answers its list keeps its link, and its list counts")
    func silentMode() {
        let device = play(resets: .fields([:]), .silence)
        #expect(device.report?.outcome == .alreadyRunning, "\(String(describing: device.outcome))")
        #expect(device.links == 1)
        // Twice the 3 s of the two attempts, with an image list between them.
        #expect(device.now < .seconds(10))
        #expect(device.frames.filter { $0.group == 0 && $0.command == 8 }.count == 4)
    }

    @Test(
        "a device with one slot whose first answers about the mode are lost restarts into its other program",
        arguments: [true, false])
    func lostMode(refusesList: Bool) {
        var left = 3
        let device = PlayedDevice(.push([image], UpdateOptions(ending: .permanent)), isDatagram: true) { frame, _ in
            if frame.group == 0, frame.command == 8, left > 0 {
                left -= 1
                return .silence
            }
            if refusesList, frame.group == 1, frame.command == 0 { return .fields(["rc": CBORValue(8)]) }
            return .fields(answer(frame))
        }
        #expect(left == 0)
        #expect(
            device.frames.contains { $0.group == 0 && $0.command == 5 }, "\(String(describing: device.outcome))")
    }

    @Test("a loader that is silent while it boots is asked for its mode before its list counts")
    func silentBoot() {
        var left = 8
        let device = PlayedDevice(.push([image], UpdateOptions(ending: .permanent)), isDatagram: true) { frame, _ in
            left -= 1
            return left >= 0 ? .silence : .fields(answer(frame))
        }
        #expect(device.error == .imageNotRunning, "\(String(describing: device.outcome))")
        #expect(device.frames.contains { $0.isUpload })
    }

    /// The links on which another device answers, after the restart into the loader.
    enum StrangerLinks: CaseIterable {
        case first, all
        /// All links after the loss of the link that carries the first chunk.
        case afterLoss
    }

    /// Plays a device with one slot over a datagram link.
    private func playOneSlot(
        _ image: SMPImage, digestLength: Int = 32, listsAfter uploads: Int = 1, identity: [String: String] = [:],
        hidesMode: Bool = false,
        on strangerLinks: StrangerLinks = .first, stranger: ((SMPFrame) -> [String: CBORValue])? = nil
    ) -> PlayedDevice {
        var (runsLoader, begun, length) = (false, 0, 0)
        var (strangeLink, uploadLink): (Int?, Int?)
        let own = image.verified.listed(digestLength == 64 ? 0x12 : 0x10).digest
        return PlayedDevice(.push([image], UpdateOptions(ending: .permanent)), isDatagram: true) { frame, link in
            if let stranger, runsLoader {
                switch strangerLinks {
                case .first where strangeLink == nil || strangeLink == link:
                    strangeLink = link
                    return .fields(stranger(frame))
                case .all: return .fields(stranger(frame))
                case .afterLoss where uploadLink != nil: return uploadLink == link ? .loss : .fields(stranger(frame))
                case .afterLoss where frame.isUpload: uploadLink = link
                case .first, .afterLoss: break
                }
            }
            switch (frame.group, frame.command) {
            case (0, 8) where hidesMode && begun > 0 && !runsLoader: return .fields(["rc": CBORValue(8)])
            case (0, 8): return .fields(["mode": CBORValue(7)])
            case (0, 5):
                runsLoader = frame.fields["boot_mode"]?.integer == 1
                return .fields([:])
            case (1, 0) where runsLoader && !frame.isMark:
                var entries = [entry(1, [UInt8](repeating: 9, count: digestLength))]
                if begun >= uploads, length == image.verified.bytes.count { entries.append(entry(0, own)) }
                if begun == 0, !identity.isEmpty { entries.append(entry(0, [UInt8](repeating: 8, count: 32))) }
                return .fields(["images": .array(entries)])
            case (1, 1) where runsLoader:
                let offset = frame.fields["off"]?.integer ?? 0
                if offset == 0 { begun += 1 }
                length = offset + (frame.fields["data"]?.bytes?.count ?? 0)
                return .fields(["off": CBORValue(length)])
            case (128, 0) where !runsLoader && !identity.isEmpty:
                return .fields(identity.mapValues { CBORValue.text($0) })
            default: return .fields(["rc": CBORValue(8)])
            }
        }
    }

    private func entry(_ slot: Int, _ digest: [UInt8]) -> CBORValue {
        .map(["slot": CBORValue(slot), "version": .text("1.0.0"), "hash": .bytes(digest)])
    }

    @Test("an image with only a SHA-512 is sent to a loader that lists digests of 64 bytes")
    func sha512() throws {
        let device = playOneSlot(SMPImage(try ExampleImage.sha512()), digestLength: 64)
        #expect(device.report?.outcome == .returned, "\(String(describing: device.outcome))")
        let other = playOneSlot(image, digestLength: 64)
        #expect(other.error == .wrongImageFormat, "\(String(describing: other.outcome))")
        #expect(!other.frames.contains { $0.isUpload })
    }

    /// The image in slot 0 has version 1.0.0. The board is not known, so Memfault's software type is the product.
    @Test(
        "the required version of a bundle is compared with the loader's list if the application reports another version",
        arguments: [("1.0.0", true), ("1.2.0", false)])
    func requires(version: String, isMet: Bool) throws {
        let bundle = ExampleBundle(requires: RequiredVersion(version))
        let image = SMPImage(try bundle.verified().mcubootImage())
        let device = playOneSlot(image, identity: ["software_type": "demo", "current_version": "7.0.0"])
        #expect(device.error == (isMet ? nil : .requiresNewer), "\(String(describing: device.outcome))")
        #expect(device.frames.contains { $0.isUpload } == isMet)
    }

    @Test("a compressed image is refused before the device leaves its application")
    func compressed() throws {
        let image = try ExampleImage.compressed(unpacked: [UInt8](repeating: 7, count: 32))
        let device = playOneSlot(SMPImage(image))
        #expect(device.error == .wrongImageFormat, "\(String(describing: device.outcome))")
        #expect(!device.frames.contains { $0.isReset || $0.isUpload })
    }

    @Test("an image that the loader does not list after the upload is sent once more")
    func sendsAgain() {
        let device = playOneSlot(image, listsAfter: 2)
        #expect(device.report?.outcome == .returned, "\(String(describing: device.outcome))")
        let refused = playOneSlot(image, listsAfter: 3)
        #expect(refused.error == .wrongImageFormat)
        guard case .failure(let error)? = refused.outcome else { return }
        #expect(error.stoppedApplication == .overwritten, "the loader has overwritten the application")
    }

    @Test("a new application without the request for its bootloader's mode ends returned at the second link")
    func hidesMode() {
        let device = playOneSlot(image, hidesMode: true)
        #expect(device.report?.outcome == .returned, "\(String(describing: device.outcome))")
        #expect(device.now < .seconds(60))
    }

    @Test(
        "another device that answers after the restart into the loader gets only queries, and no success is claimed for it",
        arguments: StrangerLinks.allCases, [false, true])
    func anotherDevice(links: StrangerLinks, hasMode: Bool) {
        var changes = 0
        let device = playOneSlot(image, on: links) { frame in
            if frame.isUpload || frame.isReset || frame.isMark || frame.group == 3 { changes += 1 }
            switch (frame.group, frame.command) {
            case (0, 8) where hasMode: return ["mode": CBORValue(3)]
            case (1, 0): return list(digest)
            default: return ["rc": CBORValue(8)]
            }
        }
        #expect(changes == 0)
        let outcome = String(describing: device.outcome)
        switch links {
        case .first: #expect(device.report?.outcome == .returned, "\(outcome)")
        case .all: #expect(device.error == .didNotReturn, "\(outcome)")
        case .afterLoss: #expect(device.error == .linkLost, "\(outcome)")
        }
    }

    @Test(
        "a push that began with the loader ends returned only after real searches without a device",
        arguments: [
            (LinkError.Code.noSuchDevice, true), (.unavailable, false), (.timedOut, false), (.inUse, false),
        ])
    func isNotSeenAgain(code: LinkError.Code, isReturned: Bool) throws {
        var session = UpdateSession(try SMPConversation(.push([image], UpdateOptions(ending: .permanent))), seed: 1)
        #expect(session.handle(.started, at: .zero).contains(.connect()))
        var now = Duration.zero
        var events: [UpdateEvent] = [
            .linkUp(Self.link())
        ]
        var hasReset = false
        var targets: Set<LinkTarget> = []
        for _ in 0..<10_000 {
            if events.isEmpty {
                now = max(now, try #require(session.deadline))
                events.append(.deadlinePassed)
            }
            for action in session.handle(events.removeFirst(), at: now) {
                switch action {
                case .link(.subscribe(let channel)): events.append(.link(.subscribed(channel)))
                case .link(.send(let values, let channel)):
                    guard let frame = try SMPFrameAssembler.whole(values) else { continue }
                    hasReset = hasReset || frame.isReset
                    events.append(.link(.notified(frame.answer(answer(frame)), channel)))
                case .connect(let target):
                    targets.insert(target)
                    events.append(.linkDown(LinkError(code, "not seen")))
                case .disconnect: events.append(.linkDown(LinkError(.lost, "closed")))
                case .finish(let report):
                    #expect(report.outcome == .returned && hasReset && isReturned)
                    #expect(targets == [.program])
                    return
                case .fail(let error):
                    #expect(error.code == .didNotReturn && !isReturned, "\(error.context)")
                    return
                default: break
                }
            }
        }
        Issue.record("the session does not end")
    }

    @Test("at another address, an application is not the device, and gets only queries")
    func otherAddress() throws {
        var session = UpdateSession(try SMPConversation(.push([image], UpdateOptions(ending: .permanent))), seed: 1)
        _ = session.handle(.started, at: .zero)
        var events: [UpdateEvent] = [.linkUp(Self.link(hasOtherAddress: true))]
        while !events.isEmpty {
            for action in session.handle(events.removeFirst(), at: .zero) {
                switch action {
                case .link(.subscribe(let channel)): events.append(.link(.subscribed(channel)))
                case .link(.send(let values, let channel)):
                    guard let frame = try SMPFrameAssembler.whole(values) else { continue }
                    #expect(frame.operation == .read)
                    events.append(.link(.notified(frame.answer(application(frame)), channel)))
                case .fail(let error):
                    #expect(error.code == .noSuchDevice, "\(error.context)")
                    return
                default: break
                }
            }
        }
        Issue.record("the session does not end")
    }

    @Test(
        "a link without SMP after the restart into the loader does not end the push, and an interruption then says what the device runs"
    )
    func linkWithoutSMP() throws {
        var session = UpdateSession(try SMPConversation(.push([image], UpdateOptions(ending: .permanent))), seed: 1)
        var (events, now, links): ([UpdateEvent], Duration, Int) = ([.started], .zero, 0)
        for _ in 0..<1000 {
            if events.isEmpty {
                now = max(now, try #require(session.deadline))
                events.append(.deadlinePassed)
            }
            for action in session.handle(events.removeFirst(), at: now) {
                switch action {
                case .connect(let target):
                    links += 1
                    guard links < 3 else {
                        #expect(target == .program)
                        events = [.interrupted]
                        break
                    }
                    events.append(.linkUp(Self.link(offersSMP: links == 1)))
                case .link(.subscribe(let channel)): events.append(.link(.subscribed(channel)))
                case .link(.send(let values, let channel)):
                    guard let frame = try SMPFrameAssembler.whole(values) else { continue }
                    events.append(.link(.notified(frame.answer(application(frame)), channel)))
                case .disconnect: events = [.linkDown(LinkError(.lost, "closed"))]
                case .fail(let error):
                    #expect(error.code == .interrupted && error.stoppedApplication == .intact, "\(error.context)")
                    return
                default: break
                }
            }
        }
        Issue.record("the session does not connect again")
    }

    private static func link(offersSMP: Bool = true, hasOtherAddress: Bool = false) -> LinkProperties {
        LinkProperties(
            channels: offersSMP ? [SMPChannel.value] : [], maximumValueLength: 4096, programName: "FL_0123456789",
            hasOtherAddress: hasOtherAddress)
    }

    /// The answers of an application that accepts a name for its loader and restarts.
    private func application(_ frame: SMPFrame) -> [String: CBORValue] {
        switch (frame.group, frame.command) {
        case (0, 8): ["mode": CBORValue(7)]
        case (3, _), (0, 5): [:]
        default: ["rc": CBORValue(8)]
        }
    }

    private func answer(_ frame: SMPFrame) -> [String: CBORValue] {
        switch (frame.group, frame.command) {
        case (0, 8): ["mode": CBORValue(7)]
        case (0, 6): ["buf_size": CBORValue(2048), "buf_count": CBORValue(4)]
        case (0, 0): ["r": frame.fields["d"] ?? .text("")]
        case (0, 5): [:]
        case (1, 0): list(digest)
        case (1, 1): ["off": CBORValue((frame.fields["off"]?.integer ?? 0) + (frame.fields["data"]?.bytes?.count ?? 0))]
        default: ["rc": CBORValue(8)]
        }
    }
}

extension SMPFrameAssembler {
    /// Returns the packet that consists of these values.
    fileprivate static func whole(_ values: [[UInt8]]) throws -> SMPFrame? {
        var assembler = SMPFrameAssembler()
        var frame: SMPFrame?
        for value in values { frame = try assembler.take(value).first ?? frame }
        return frame
    }
}
