import OTAFirmware
import OTAProfile
import OTASigning
import OTAUpdate
import Testing

@Suite("Pushes of an encoded image over the OTA profile") struct EncodedSessionTests {
    private let base = PlayedWorld.base(1)

    private func deltaWorld(_ options: UpdateOptions = UpdateOptions()) throws -> PlayedWorld {
        var options = options
        options.bases = [base]
        var world = try PlayedWorld(options)
        world.device.base = base.digest.prefix
        return world
    }

    @Test("an image is sent as the difference from the running image, and the report has the bytes on the link")
    func delta() throws {
        var world = try deltaWorld()
        world.play()
        #expect(world.device.begins == ["delta 0"] && world.requests == [EncodingRequest(offset: 0, base: base)])
        let transfer = try #require(world.report?.transfer)
        #expect(world.report?.outcome == .confirmed)
        #expect(transfer.encoding == .lzma2 && transfer.base == base && transfer.plainBecause == nil)
        #expect(transfer.sentBytes == 198 && transfer.encodedBytes == 198 && transfer.resentBytes == 0)
        #expect(world.reports.contains(.encoding(base: base, bytes: 198, plainBytes: 600)))
        #expect(world.reports.contains(.transferred(offset: 600, total: 600, sent: 198)))
        #expect(world.report?.device.encodings == [.lzma2] && world.report?.device.largestBase == 1 << 20)
    }

    @Test("BEGIN of an encoded image has the layout of the profile: 20 bytes with opcode and tag")
    func request() {
        let digest: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
        let delta = Request.beginEncoded(from: 0x0102_0304, base: Request.Base(size: 0x0506_0708, digestPrefix: digest))
        #expect(delta.bytes(tag: 9) == [1, 9, 3, 1, 4, 3, 2, 1, 8, 7, 6, 5] + digest)
        let compressed = Request.beginEncoded(from: Request.resume, base: nil)
        #expect(compressed.bytes(tag: 9) == [1, 9, 3, 1, 255, 255, 255, 255] + [UInt8](repeating: 0, count: 12))
    }

    @Test("an image is compressed if the device has no readable base, or if no base is known")
    func compressed() throws {
        for largest: UInt32 in [0, 499] {
            var world = try deltaWorld()
            world.device.largestBase = largest
            world.play()
            #expect(world.device.begins == ["compressed 0"] && world.report?.outcome == .confirmed)
        }
        var world = try PlayedWorld()
        world.play()
        #expect(world.device.begins == ["compressed 0"] && world.report?.transfer?.base == nil)
        #expect(world.report?.transfer?.encoding == .lzma2)
    }

    @Test("an image is sent plain to a device without encodings, with the option for it, and without an encoder")
    func plain() throws {
        var old = try deltaWorld()
        old.device.largestBase = nil
        old.play()
        #expect(old.device.begins == ["plain 0"] && old.requests.isEmpty)
        #expect(old.report?.transfer?.plainBecause == .notOffered && old.report?.device.encodings == [])
        var asked = try deltaWorld(UpdateOptions(isPlain: true))
        asked.play()
        #expect(asked.device.begins == ["plain 0"] && asked.requests.isEmpty)
        #expect(asked.report?.transfer?.plainBecause == .asked && asked.report?.transfer?.encoding == .plain)
        var without = try deltaWorld()
        without.encode = { _ in nil }
        without.play()
        #expect(without.device.begins == ["plain 0"] && without.requests.count == 1)
        #expect(without.report?.transfer?.plainBecause == .asked && without.notes.isEmpty)
    }

    @Test("bases are tried in order: the reported digest, the running version, then plain files; at most three")
    func bases() throws {
        let running = SHA256.digest(of: [99])
        let options = UpdateOptions(bases: [
            PlayedWorld.base(1), PlayedWorld.base(2, manifest: SHA256.digest(of: [2]), version: "1.0.0"),
            PlayedWorld.base(3, manifest: SHA256.digest(of: [3]), version: "0.9.0"),
            PlayedWorld.base(4, manifest: running, version: "1.0.0"), PlayedWorld.base(5), PlayedWorld.base(6),
        ])
        var world = try PlayedWorld(options)
        world.device.runningDigest = running.prefix
        world.play()
        #expect(world.requests.map { $0.base?.id } == [4, 2, 1, nil])
        #expect(world.device.begins == ["compressed 0"], "a refused BEGIN changes nothing")
        let transfer = try #require(world.report?.transfer)
        #expect(transfer.baseRefused == 3 && transfer.base == nil && world.report?.outcome == .confirmed)
        #expect(world.notes.contains("the device does not run the image of base-4"))
    }

    @Test("two files with the same image are one base, and a bundle of another product is no base")
    func sameImage() throws {
        var other = PlayedWorld.base(2, manifest: SHA256.digest(of: [2]), version: "1.0.0")
        other.product = ProductName("oven")
        var copy = PlayedWorld.base(1)
        copy.id = 7
        var world = try PlayedWorld(UpdateOptions(bases: [PlayedWorld.base(1), copy, other]))
        world.play()
        #expect(world.requests.map { $0.base?.id } == [1, nil])
        #expect(world.report?.transfer?.baseRefused == 1 && world.report?.outcome == .confirmed)
    }

    @Test("if the file of a base cannot be read, the push reads the next file with the same image")
    func damagedCopies() throws {
        let files = (1...3).map { number in
            var file = base
            (file.id, file.name) = (number, "copy-\(number)")
            return file
        }
        for (readable, begins) in [(3, ["delta 0"]), (4, ["compressed 0"])] {
            var world = try PlayedWorld(UpdateOptions(bases: files))
            world.device.base = base.digest.prefix
            world.encode = { request in
                guard let base = request.base, base.id < readable else {
                    return .success(PlayedWorld.stream(request.offset, 3))
                }
                return .failure(.baseUnreadable(context: "\(base.name): damaged"))
            }
            world.play()
            #expect(world.device.begins == begins && world.report?.outcome == .confirmed)
            #expect(world.requests.map { $0.base?.id } == (readable == 3 ? [1, 2, 3] : [1, 2, 3, nil]))
            #expect(
                world.notes == (1..<readable).map { "the base cannot be used: copy-\($0): damaged" }, "\(world.notes)")
        }
    }

    /// The encoder needs more time for 300 damaged files than the device needs to accept the envelope, so the device answers BEGIN meanwhile.
    @Test("300 damaged files of a base cause four notes and one BEGIN, and the intact file is used")
    func manyDamagedCopies() throws {
        let files = (1...301).map { number in
            var file = base
            (file.id, file.name) = (number, "copy-\(number)")
            return file
        }
        var world = try PlayedWorld(UpdateOptions(bases: files))
        world.device.base = base.digest.prefix
        world.encode = { request in
            guard let base = request.base, base.id < 301 else { return .success(PlayedWorld.stream(request.offset, 3)) }
            return .failure(.baseUnreadable(context: "\(base.name): damaged"))
        }
        world.play()
        #expect(world.device.begins == ["delta 0"] && world.requests.count == 301)
        #expect(world.report?.outcome == .confirmed && world.report?.transfer?.base?.name == "copy-301")
        #expect(
            world.notes == (1...3).map { "the base cannot be used: copy-\($0): damaged" }
                + ["more than 3 bases cannot be used"], "\(world.notes)")
    }

    @Test("a damaged base does not take one of the three places, and the device still gets at most three bases")
    func damagedBases() throws {
        let bases = (1...8).map { PlayedWorld.base($0, isNamed: true) }
        for running in [6, 7] as [UInt8] {
            var world = try PlayedWorld(UpdateOptions(bases: bases))
            world.device.base = PlayedWorld.base(running).digest.prefix
            world.encode = { request in
                guard let id = request.base?.id, id <= 3 else {
                    return .success(PlayedWorld.stream(request.offset, 3))
                }
                return .failure(.baseUnreadable(context: "base-\(id): damaged"))
            }
            world.play()
            let transfer = try #require(world.report?.transfer)
            #expect(world.report?.outcome == .confirmed && transfer.baseRefused == (running == 6 ? 2 : 3))
            #expect(world.device.begins == [running == 6 ? "delta 0" : "compressed 0"])
            #expect(transfer.base?.id == (running == 6 ? 6 : nil))
            let notes = world.notes.filter { $0.hasPrefix("no base") }
            let expected = [7, 8].map { "no base from base-\($0): a push offers at most 3 bases" }
            #expect(notes == (running == 6 ? [] : expected), "\(world.notes)")
        }
    }

    @Test("a base that is larger than the device accepts is reported in a note")
    func largeBase() throws {
        var world = try deltaWorld()
        world.device.largestBase = 499
        world.play()
        #expect(world.notes == ["no base from base-1: its image has 500 bytes, the device accepts at most 499"])
        #expect(world.device.begins == ["compressed 0"] && world.report?.transfer?.base == nil)
    }

    @Test("a dry run reports the encoded bytes and the base, and sends nothing")
    func dryRun() throws {
        var world = try deltaWorld(UpdateOptions(isDryRun: true))
        world.device.hold(123)
        world.play()
        var plan = UpdatePlan(resumeFrom: 123, bytes: 477, discards: 0)
        plan.encodedBytes = PlayedWorld.stream(123, 3).bytes.count
        plan.base = base
        #expect(world.report?.outcome == .wouldUpdate(plan) && world.device.begins.isEmpty)
        #expect(world.requests == [EncodingRequest(offset: 123, base: base)])
    }

    @Test(
        "a dry run reports a plain transfer if the image cannot be encoded, or if the encoder does not answer",
        arguments: [true, false])
    func dryRunPlain(hangs: Bool) throws {
        var world = try deltaWorld(UpdateOptions(isDryRun: true))
        world.encode = { _ in .failure(.tooLarge) }
        world.encoderHangs = hangs
        world.play()
        #expect(world.report?.outcome == .wouldUpdate(UpdatePlan(resumeFrom: 0, bytes: 600, discards: 0)))
    }

    @Test("an image that is not at least 5 % smaller when encoded is sent plain")
    func notSmaller() throws {
        var world = try deltaWorld()
        world.encode = { .success(PlayedWorld.stream($0.offset, 1)) }
        world.play()
        #expect(world.requests.map { $0.base?.id } == [1, nil] && world.device.begins == ["plain 0"])
        #expect(world.report?.transfer?.plainBecause == .notSmaller && world.report?.outcome == .confirmed)
        #expect(world.reports.contains(.plain(.notSmaller)))
    }

    @Test(
        "an encoded rest of the image is sent up to 95 % of the size of this rest",
        arguments: [(0, 570, true), (0, 571, false), (300, 285, true), (300, 286, false)])
    func largestWorthwhile(offset: Int, count: Int, isSent: Bool) throws {
        var world = try PlayedWorld()
        world.device.hold(offset)
        world.encode = {
            .success(
                EncodedImage(
                    offset: $0.offset, bytes: [UInt8](repeating: 1, count: count),
                    chunks: [.init(imageEnd: 600, streamEnd: count)]))
        }
        world.play()
        #expect(world.device.begins == ["\(isSent ? "compressed" : "plain") \(offset)"])
        #expect(world.report?.outcome == .confirmed)
    }

    @Test("on a later link, a base may be as large as the device accepts on this link", arguments: [500, 499])
    func baseOnALaterLink(largest: UInt32) throws {
        var world = try deltaWorld()
        world.device.valuesPerLink = 2
        world.device.largestBase = 500
        world.device.laterLargestBase = largest
        world.play()
        #expect(world.device.begins[0] == "delta 0" && world.report?.outcome == .confirmed)
        #expect(world.device.begins[1].hasPrefix(largest == 500 ? "delta" : "compressed"))
    }

    @Test(
        "on a later link, a base that replaces an unreadable one may be as large as the device accepts on this link",
        arguments: [600, 599])
    func reserveOnALaterLink(largest: UInt32) throws {
        let bases = (1...3).map { PlayedWorld.base($0) } + [PlayedWorld.base(4, size: 600)]
        var world = try PlayedWorld(UpdateOptions(bases: bases))
        world.device.base = bases[0].digest.prefix
        world.device.valuesPerLink = 2
        world.device.laterLargestBase = largest
        world.encode = { request in
            guard request.offset > 0, let id = request.base?.id, id < 4 else {
                return .success(PlayedWorld.stream(request.offset, 3))
            }
            return .failure(.baseUnreadable(context: "base-\(id): damaged"))
        }
        world.play()
        #expect(world.device.begins[0] == "delta 0" && world.report?.outcome == .confirmed)
        #expect(world.requests.contains { $0.base?.id == 4 } == (largest == 600))
    }

    @Test(
        "an encoder that fails, hangs or returns an invalid stream costs no update",
        arguments: [
            (.failure(.tooLarge), .tooLarge), (.failure(.notDecoded(context: "x")), .notDecoded),
            (.failure(.baseUnreadable(context: "x")), .notDecoded),
            (
                .success(EncodedImage(offset: 0, bytes: [1, 2], chunks: [.init(imageEnd: 600, streamEnd: 3)])),
                .notDecoded
            ),
            (.success(EncodedImage(offset: 0, bytes: [1], chunks: [.init(imageEnd: 599, streamEnd: 1)])), .notDecoded),
            (.success(EncodedImage(offset: 0, bytes: [], chunks: [])), .notDecoded),
            (.success(EncodedImage(offset: 1, bytes: [1], chunks: [.init(imageEnd: 600, streamEnd: 1)])), .notDecoded),
        ] as [(Result<EncodedImage, EncodingFailure>, TransferReport.PlainReason)])
    func encoderFails(result: Result<EncodedImage, EncodingFailure>, reason: TransferReport.PlainReason) throws {
        var world = try PlayedWorld()
        world.encode = { _ in result }
        world.play()
        #expect(world.device.begins == ["plain 0"] && world.report?.outcome == .confirmed)
        #expect(world.report?.transfer?.plainBecause == reason)
    }

    @Test("a push does not wait longer than 60 s for its encoder")
    func encoderHangs() throws {
        var world = try PlayedWorld()
        world.encoderHangs = true
        world.play()
        #expect(world.device.begins == ["compressed 0", "plain 0"] && world.report?.outcome == .confirmed)
        #expect(world.report?.transfer?.plainBecause == .tooLarge)
    }

    @Test(
        "a push continues plain if the device refuses the encoded image for any reason but the base",
        arguments: [1, 2, 3, 13, 15, 19, 18] as [UInt8])
    func refused(status: UInt8) throws {
        var world = try PlayedWorld()
        world.device.refusals = [status]
        world.play()
        #expect(world.device.begins == ["plain 0"] && world.report?.outcome == .confirmed)
        #expect(world.report?.transfer?.plainBecause == .notOffered)
    }

    @Test("a busy device receives the same request again")
    func busy() throws {
        var world = try deltaWorld()
        world.device.refusals = [4, 4]
        world.play()
        #expect(world.device.begins == ["delta 0"] && world.report?.outcome == .confirmed)
    }

    @Test("after a lost link a new stream starts at the device's offset in the image")
    func lostLinks() throws {
        var world = try deltaWorld()
        world.device.valuesPerLink = 2
        world.play()
        #expect(world.report?.outcome == .confirmed)
        let begins = world.device.begins
        #expect(begins.count > 2)
        let offsets = world.requests.map(\.offset)
        #expect(
            begins == offsets.map { "delta \($0)" } + ["plain 600"],
            "Info reports the offset, so each stream fits at once")
        #expect(offsets == offsets.sorted() && Set(offsets).count == offsets.count)
        let transfer = try #require(world.report?.transfer)
        #expect(transfer.disconnects == begins.count - 1)
        #expect(transfer.encodedBytes + transfer.resentBytes == transfer.sentBytes)
    }

    @Test("after three links without progress the rest of the image is sent plain")
    func fallsBackWithoutProgress() throws {
        var world = try deltaWorld()
        world.valueLength = 20
        world.device.valuesPerLink = 1
        world.play()
        // 18 bytes of a stream are fewer than the 21 bytes that the decoder needs for a step.
        #expect(world.device.begins.prefix(5) == ["delta 0", "delta 0", "delta 0", "delta 0", "plain 0"])
        #expect(world.device.begins.dropFirst(5).allSatisfy { $0.hasPrefix("plain") })
        #expect(world.report?.outcome == .confirmed && world.report?.transfer?.plainBecause == .noProgress)
    }

    @Test("attempts to connect that open no link do not select the plain image", arguments: [1, 2, 3])
    func failedConnects(openLinks: Int) throws {
        var world = try deltaWorld()
        world.device.valuesPerLink = 1
        world.valueLength = 20
        world.openLinks = openLinks
        world.play()
        #expect(world.error?.code == .linkLost)
        // The first loss and three attempts; with three lost links, three more attempts for the plain image.
        #expect(world.connects == (openLinks == 3 ? 7 : 4))
        #expect(world.device.begins.allSatisfy { $0 == "delta 0" })
    }

    @Test("links that are lost before the next BEGIN of the image count as links without progress")
    func fallsBackBeforeBegin() throws {
        var world = try deltaWorld()
        world.device.valuesPerLink = 1
        world.device.linksLostAtBegin = 3
        world.play()
        #expect(world.report?.outcome == .confirmed && world.report?.transfer?.plainBecause == .noProgress)
        #expect(world.device.begins.first == "delta 0")
        #expect(world.device.begins.count > 1 && world.device.begins.dropFirst().allSatisfy { $0.hasPrefix("plain") })
    }

    @Test(
        "a stream that the device cannot decode is sent again once, and then the rest plain",
        arguments: [true, false])
    func undecodable(notified: Bool) throws {
        for (streams, begins, reason) in [
            ([1], ["delta", "delta"], nil), ([1, 2], ["delta", "delta", "plain"], .notDecoded),
        ] as [(Set<Int>, [String], TransferReport.PlainReason?)] {
            var world = try deltaWorld()
            world.device.undecodable = streams
            world.device.notifiesFailure = notified
            world.play()
            #expect(world.device.begins.map { String($0.prefix { $0 != " " }) } == begins)
            #expect(world.report?.outcome == .confirmed && world.report?.transfer?.plainBecause == reason)
        }
    }

    @Test("after a stream that the device cannot decode, the transfer continues after the last acknowledged chunk")
    func undecodableAfterAChunk() throws {
        var world = try deltaWorld()
        world.encode = { .success(PlayedWorld.stream($0.offset, 3, chunk: 60)) }
        world.device.acknowledgesValues = true
        world.device.undecodable = [1]
        world.play()
        #expect(world.device.begins == ["delta 0", "delta 60"] && world.report?.outcome == .confirmed)
    }

    @Test("a digest mismatch after an encoded transfer begins the image again from 0, plain")
    func digestMismatch() throws {
        var world = try deltaWorld()
        world.device.finishAnswer = 16
        world.play()
        #expect(world.device.begins == ["delta 0", "plain 0"] && world.report?.outcome == .confirmed)
        #expect(world.report?.transfer?.plainBecause == .notDecoded)
    }

    @Test("a device that has the whole stream but not the whole image receives the rest again")
    func incompleteImage() throws {
        var world = try deltaWorld()
        world.device.finishAnswer = 3
        world.play()
        #expect(world.report?.outcome == .confirmed && world.device.begins.count == 2)
    }

    @Test("a device that already has the complete image gets no base to check")
    func completeImage() throws {
        var world = try deltaWorld()
        world.device.hold(600)
        world.play()
        #expect(world.device.begins == ["plain 600"] && world.requests.isEmpty)
        #expect(world.report?.outcome == .confirmed && world.report?.transfer?.sentBytes == 0)
        #expect(world.report?.transfer?.plainBecause == nil)
    }

    @Test("a partial upload of another client is continued by a stream from the device's offset")
    func partialUpload() throws {
        var world = try deltaWorld()
        world.device.hold(123)
        world.play()
        #expect(world.device.begins == ["delta 123"] && world.requests.map(\.offset) == [123])
        #expect(world.report?.outcome == .confirmed && world.report?.transfer?.resumedFrom == 123)
        var restarted = try deltaWorld(UpdateOptions(resume: .never))
        restarted.device.hold(123)
        restarted.play()
        #expect(restarted.device.begins == ["delta 0"] && restarted.requests.map(\.offset) == [0])
    }
}
