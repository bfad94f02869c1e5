import OTAFirmware
import OTASigning
import OTAUpdate

/// The rules that need a bundle of the device. They send its image, and never APPLY.
extension CheckRule {
    static let ofImages = [
        image(
            "envelope-accepted", "states", "Accepts the envelope of the bundle, and is in the state accepted",
            fix: "the status names the check of the envelope that failed; give a bundle that this device accepts",
            isNecessary: true, accepted, [.state(.accepted, "after the envelope")]),
        image(
            "accepted-requests", "states",
            "Refuses SYNC, FINISH, APPLY and CONFIRM in the state accepted, and drops Data",
            fix: "check the state before the arguments",
            accepted,
            [
                .ask(CheckRequest.sync(0), expecting: .badState, "SYNC"),
                .ask(CheckRequest.finish, expecting: .badState, "FINISH"),
                .ask(CheckRequest.applyTrial, expecting: .badState, "APPLY without an image"),
                .ask(CheckRequest.confirm, expecting: .badState, "CONFIRM"),
                .send { [$0.chunk([1, 2, 3], ahead: 9)] }, .noRewind, .state(.accepted, "after refused requests"),
            ]),
        image(
            "image-arguments", "states", "Refuses BEGIN image with another size or digest than the manifest with 2",
            fix: "compare size and digest prefix with the accepted manifest",
            accepted,
            [
                .ask(
                    { CheckRequest.begin(2, size: imageSize($0) + 1, digest: imageDigest($0)) },
                    expecting: .badArgument,
                    "BEGIN image with another size"),
                .ask(
                    { CheckRequest.begin(2, size: imageSize($0), digest: Array(imageDigest($0).reversed())) },
                    expecting: .badArgument, "BEGIN image with another digest"),
                .state(.accepted, "after refused requests"),
            ]),
        image(
            "image-from-0", "control", "BEGIN image with from 0 starts at 0",
            fix: "begin at offset 0 if from is 0, also if the device holds bytes",
            accepted,
            begun(from: 0) { (_, position) throws(Deviation) in
                guard position.offset == 0 else { throw Deviation("the offset is \(position.offset), expected 0") }
            }, CheckStep.transfer { half($0) }, [.prepare { $0.acknowledged = $0.offset }]),
        image(
            "image-held", "info", "After a lost link, Info has the partial upload of the release",
            fix: "store the SHA-256 of the manifest with the record, and report it with the offset as Info item 10",
            [
                .newLink,
                CheckStep({ _ in .read(ProfileChannel.info) }) { (memory, outcome) throws(Deviation) in
                    let bytes = try outcome.bytes("Info")
                    let manifest = memory.bundle?.manifestDigest.prefix ?? []
                    guard let info = try? DeviceInfo(parsing: bytes) else { throw Deviation("Info is malformed") }
                    guard let held = info.held else { throw Deviation("Info has no item 10") }
                    guard held.manifestDigestPrefix == manifest else {
                        throw Deviation("item 10 has another digest prefix")
                    }
                    return 1
                },
            ], skipped: { $0.acknowledged == 0 ? "no image byte was acknowledged before" : nil }),
        image(
            "image-resume", "what-the-device-does", "Resumes an image after a lost link, with the CRC of its flash",
            fix: "after a disconnection, continue at most at the accepted bytes; read the CRC back from the flash",
            accepted,
            begun(from: UInt32.max) { (memory, position) throws(Deviation) in
                guard position.offset <= memory.acknowledged else {
                    throw Deviation(
                        "the device resumes at \(position.offset), but it had accepted \(memory.acknowledged)")
                }
                if position.offset < memory.acknowledged {
                    memory.note = "resumed at \(position.offset) of \(memory.acknowledged) accepted bytes"
                }
            }, start: .newLink, skipped: { $0.acknowledged == 0 ? "no image byte was acknowledged before" : nil }),
        image(
            "image-requests", "states", "Refuses FINISH of an incomplete image, APPLY and CONFIRM with 3",
            fix: "check the state, and compare the offset with the size",
            accepted,
            begun(from: UInt32.max),
            [
                .ask(CheckRequest.finish, expecting: .badState, "FINISH of an incomplete image"),
                .ask(CheckRequest.applyTrial, expecting: .badState, "APPLY in the state image"),
                .ask(CheckRequest.confirm, expecting: .badState, "CONFIRM in the state image"),
                .state(.image, "after refused requests"),
            ], skipped: { imageSize($0) < 2 ? "the image has only one byte" : nil }),
        image(
            "image-from", "control", "BEGIN image never continues after the requested offset",
            fix: "continue at most at from, for example at the start of its page",
            accepted,
            begun(from: 1) { (_, position) throws(Deviation) in
                guard position.offset <= 1 else { throw Deviation("the offset is \(position.offset), above from 1") }
            }),
        image(
            "image-digest", "states", "Refuses an image with a wrong byte with 16, and discards it",
            fix: "read the whole image back from flash and compare its SHA-256; then discard the held bytes",
            accepted,
            begun(from: 0), CheckStep.transfer { $0.object.count - 1 },
            [.prepare { $0.object[$0.object.count - 1] ^= 1 }], CheckStep.transfer { $0.object.count },
            [
                .ask(CheckRequest.finish, expecting: .digestMismatch, "FINISH of an image with a wrong byte"),
                .state(.accepted, "after a refused image"),
            ],
            begun(from: UInt32.max) { (_, position) throws(Deviation) in
                guard position.offset == 0 else { throw Deviation("the device still holds \(position.offset) bytes") }
            }),
        image(
            "image-verified", "states", "Verifies the complete image, and then refuses SYNC, FINISH and CONFIRM",
            fix: "FINISH of the right image leads to the state verified",
            accepted,
            begun(from: UInt32.max), CheckStep.transfer { $0.object.count },
            [
                .ask(CheckRequest.finish, expecting: .ok, "FINISH of the image"), .state(.verified, "after FINISH"),
                .ask(CheckRequest.sync(0), expecting: .badState, "SYNC in the state verified"),
                .ask(CheckRequest.finish, expecting: .badState, "another FINISH"),
                .ask(CheckRequest.confirm, expecting: .badState, "CONFIRM in the state verified"),
                .state(.verified, "after refused requests"),
            ]),
        image(
            "image-discarded", "control", "DISCARD discards the held bytes",
            fix: "after DISCARD, Info has no item 10, and the next upload starts at 0",
            [
                .ask(CheckRequest.discard, expecting: .ok, "DISCARD"), .newLink,
                CheckStep({ _ in .read(ProfileChannel.info) }) { (_, outcome) throws(Deviation) in
                    guard let info = try? DeviceInfo(parsing: try outcome.bytes("Info")) else {
                        throw Deviation("Info is malformed")
                    }
                    guard info.held == nil else { throw Deviation("Info still has item 10") }
                    return 1
                },
            ]),
    ]

    private static func image(
        _ name: String, _ section: String, _ statement: String, fix: String, isNecessary: Bool = false,
        _ steps: [CheckStep]..., start: Start = .link,
        skipped: @escaping @Sendable (CheckMemory) -> String? = { _ in nil }
    ) -> CheckRule {
        CheckRule(
            name, section, statement, fix: fix, start: start, isNecessary: isNecessary,
            skipped: { $0.bundle == nil ? "needs --bundle" : skipped($0) }, steps.flatMap { $0 })
    }

    private static func imageSize(_ memory: CheckMemory) -> Int { memory.bundle?.image.count ?? 0 }
    private static func imageDigest(_ memory: CheckMemory) -> [UInt8] {
        memory.bundle?.manifest.imageDigest.prefix ?? []
    }
    private static func half(_ memory: CheckMemory) -> Int { max(1, memory.object.count / 2) }

    /// The steps that lead to the state *accepted*.
    private static let accepted =
        CheckStep.deliver { memory in
            guard let bundle = memory.bundle else { return [] }
            let keys = memory.firstInfo?.keys ?? []
            let signatures = bundle.envelope.signatures.filter { keys.contains($0.keyID) }
            return (try? Envelope(manifest: bundle.manifest, signatures: signatures))?.bytes ?? bundle.envelope.bytes
        } + [.ask(CheckRequest.finish, expecting: .ok, "FINISH of the envelope")]

    /// The steps that open the image.
    private static func begun(
        from: UInt32, _ check: @escaping @Sendable (inout CheckMemory, Position) throws(Deviation) -> Void = { _, _ in }
    ) -> [CheckStep] {
        [
            .prepare { $0.object = $0.bundle?.image ?? [] },
            .begin({ CheckRequest.begin(2, size: imageSize($0), from: from, digest: imageDigest($0)) }, check),
        ]
    }

    /// All rules, in the order in which they are checked.
    static let all = ofService + ofControl + ofData + ofEnvelopes + ofImages + atEnd
}
