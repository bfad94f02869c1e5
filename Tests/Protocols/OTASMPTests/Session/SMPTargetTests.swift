import OTAFirmware
import OTASMP
import OTASigning
import OTAUpdate
import Testing

/// Tests which fields of a manifest a push over SMP checks, and which it refuses as unchecked.
@Suite("Target checks of a bundle over SMP") struct SMPTargetTests {
    /// Runs a push of a bundle. The result has the device's received packets and its slots.
    private func push(
        _ bundle: ExampleBundle, board: String? = "demo", running: String = "1.0.0",
        options: UpdateOptions = UpdateOptions(), onTrial: Bool = false, before: String? = nil, losses: Int = 0,
        identity: [String: String] = [:]
    ) throws -> (played: PlayedDevice, slots: PlayedSlots) {
        let image = try bundle.verified().mcubootImage()
        var listed = image.listed()
        listed.confirmed = false
        let slots = PlayedSlots(
            running: [
                0: onTrial ? listed : PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 32), version: running)
            ],
            others: before.map { [0: PlayedSlots.Image(digest: [UInt8](repeating: 2, count: 32), version: $0)] } ?? [:],
            known: [image.fileDigest.bytes: image.listed()])
        var left = losses
        let played = PlayedDevice(.push([SMPImage(image)], options)) { frame, _ in
            // With one buffer the host sends one request at a time, so it has the image list before the link breaks.
            if losses > 0, frame.group == 0, frame.command == 6 {
                return .fields(["buf_size": CBORValue(512), "buf_count": CBORValue(1)])
            }
            if frame.group == 128, !identity.isEmpty { return .fields(identity.mapValues { .text($0) }) }
            guard frame.group == 0, frame.command == 7 else { return slots.answer(frame) }
            if left > 0 {
                left -= 1
                return .loss
            }
            return board.map { .fields(["output": .text($0)]) } ?? slots.answer(frame)
        }
        return (played, slots)
    }

    /// Returns whether the push left the device unchanged.
    private func left(_ result: (played: PlayedDevice, slots: PlayedSlots)) -> Bool {
        result.slots.uploads.isEmpty && result.slots.resets == 0
            && !result.played.frames.contains {
                $0.group == 1 && $0.operation == .write && $0.fields["confirm"]?.bool == true
            }
    }

    private func context(_ played: PlayedDevice) -> String {
        if case .failure(let error) = played.outcome { return error.context }
        return ""
    }

    @Test(
        "a bundle for the device's board is confirmed",
        arguments: ["demo", "demo@2", "demo/nrf5340/cpuapp", "demo@1.0.0/nrf5340"])
    func acceptsItsBoard(board: String) throws {
        let result = try push(ExampleBundle(), board: board)
        #expect(result.played.report?.outcome == .confirmed, "\(String(describing: result.played.outcome))")
        #expect(result.played.report?.unchecked == [])
    }

    @Test("a product name can be the whole board target, with '_' in place of '/'")
    func acceptsABoardTarget() throws {
        let bundle = ExampleBundle(product: "dk_nrf5340_cpuapp")
        #expect(try push(bundle, board: "dk@1/nrf5340/cpuapp").played.report?.outcome == .confirmed)
        #expect(try push(bundle, board: "dk@1/nrf5340/cpunet").played.error == .wrongProduct)
    }

    @Test("without a board's name, Memfault's software type is the product")
    func softwareType() throws {
        let right = try push(ExampleBundle(), board: nil, identity: ["software_type": "demo"])
        #expect(right.played.report?.outcome == .confirmed && right.played.report?.unchecked == [])
        let wrong = try push(ExampleBundle(), board: nil, identity: ["software_type": "other"])
        #expect(wrong.played.error == .wrongProduct && left(wrong))
        // An empty text is no value.
        #expect(try push(ExampleBundle(), board: nil, identity: ["software_type": ""]).played.error == .targetUnchecked)
    }

    @Test("Memfault's software type does not override another board's name: the product counts as unchecked")
    func contradiction() throws {
        let result = try push(ExampleBundle(), board: "other", identity: ["software_type": "demo"])
        #expect(result.played.error == .targetUnchecked && left(result))
        // The board's name is enough, and two other names are an error.
        #expect(
            try push(ExampleBundle(), board: "demo", identity: ["software_type": "main"]).played.report?.unchecked == []
        )
        let wrong = try push(ExampleBundle(), board: "other", identity: ["software_type": "main"])
        #expect(wrong.played.error == .wrongProduct)
    }

    @Test(
        "Memfault's hardware version is compared with the revisions of a bundle if it is a number",
        arguments: [
            ("2", nil), ("3", UpdateError.Code.wrongHardware), ("rev-2", .targetUnchecked), ("70000", .targetUnchecked),
        ])
    func hardware(version: String, error: UpdateError.Code?) throws {
        let bundle = ExampleBundle(hardware: 1...2)
        let result = try push(bundle, identity: ["hardware_version": version])
        #expect(result.played.error == error, "\(String(describing: result.played.outcome))")
        if error == nil { #expect(result.played.report?.unchecked == []) } else { #expect(left(result)) }
    }

    @Test(
        "a bundle for another board is refused before the upload",
        arguments: ["Demo", "dem", "demo2", "x/demo", "@demo"])
    func refusesAnotherBoard(board: String) throws {
        let result = try push(
            ExampleBundle(), board: board, options: UpdateOptions(acceptsUncheckedTarget: true))
        #expect(result.played.error == .wrongProduct && left(result), "\(String(describing: result.played.outcome))")
        #expect(context(result.played).contains(board))
    }

    @Test(
        "the error for another board has the board's product name if a bundle can have this name",
        arguments: [("dk@1.0.0/nrf5340/cpuapp", "dk"), ("dk", "dk"), ("d k", nil), ("@1", nil)])
    func namesTheProductOfTheBoard(board: String, product: String?) throws {
        guard case .failure(let error) = try push(ExampleBundle(), board: board).played.outcome else {
            Issue.record("not refused")
            return
        }
        #expect(error == UpdateError(.wrongProduct, "") && error.boardProduct == product)
    }

    @Test("a required version is compared with the running version")
    func checksTheRunningVersion() throws {
        let bundle = ExampleBundle(requires: RequiredVersion("1.2.0"))
        let options = UpdateOptions(acceptsUncheckedTarget: true)
        for running in ["1.1.9", "1.1.9.4", "0.9.0"] {
            let refused = try push(bundle, running: running, options: options)
            #expect(refused.played.error == .requiresNewer && left(refused), "\(running)")
        }
        for running in ["1.2.0", "1.2.0.7", "2.0.0"] {
            #expect(try push(bundle, running: running).played.report?.outcome == .confirmed, "\(running)")
        }
    }

    @Test(
        "a field that SMP cannot check is refused as target-unchecked",
        arguments: [
            ("hardware", ExampleBundle(hardware: 1...3), "demo", "1.0.0"),
            ("minimum_battery", ExampleBundle(minimumBattery: 30), "demo", "1.0.0"),
            ("security_counter", ExampleBundle(counter: 7), "demo", "1.0.0"),
            ("security_counter", ExampleBundle(counter: 7, imageCounter: 6), "demo", "1.0.0"),
            ("product", ExampleBundle(), nil, "1.0.0"), ("product", ExampleBundle(), "", "1.0.0"),
            ("requires", ExampleBundle(requires: RequiredVersion("1.0.0")), "demo", "first"),
        ])
    func refusesWhatItCannotCheck(field: String, bundle: ExampleBundle, board: String?, running: String) throws {
        let refused = try push(bundle, board: board, running: running)
        #expect(refused.played.error == .targetUnchecked && left(refused))
        #expect(context(refused.played).contains(field))
        let accepted = try push(
            bundle, board: board, running: running, options: UpdateOptions(acceptsUncheckedTarget: true))
        #expect(accepted.played.report?.outcome == .confirmed, "\(String(describing: accepted.played.outcome))")
        #expect(accepted.played.report?.unchecked == [field])
    }

    @Test("a bundle whose image has another version is refused", arguments: ["1.1.1", "1.2.0", "2.1.0"])
    func refusesAnImageOfAnotherVersion(version: String) throws {
        let result = try push(
            ExampleBundle(version: version), options: UpdateOptions(acceptsUncheckedTarget: true))
        #expect(result.played.error == .wrongImageFormat && left(result))
    }

    @Test("a build number or pre-release in the bundle's version is ignored in the comparison with the image")
    func acceptsABuildNumber() throws {
        for version in ["1.1.0+7", "1.1.0-rc.1"] {
            #expect(try push(ExampleBundle(version: version)).played.report?.outcome == .confirmed)
        }
    }

    @Test("a counter that the image also has and a minimum battery level of 0 need no check")
    func acceptsWhatNeedsNoCheck() throws {
        for bundle in [ExampleBundle(counter: 7, imageCounter: 7), ExampleBundle(minimumBattery: 0)] {
            #expect(try push(bundle).played.report?.outcome == .confirmed)
        }
    }

    @Test("an image on trial is not confirmed by a bundle for another board")
    func refusesToConfirmForAnotherBoard() throws {
        let result = try push(ExampleBundle(), board: "other", onTrial: true)
        #expect(result.played.error == .wrongProduct && left(result))
        #expect(try push(ExampleBundle(), onTrial: true).played.report?.outcome == .confirmed)
    }

    @Test("a push that only confirms ends a trial, and does not change a device that runs another image")
    func onlyConfirms() throws {
        let options = UpdateOptions(onlyConfirms: true)
        let trial = try push(ExampleBundle(), options: options, onTrial: true)
        #expect(trial.played.report?.outcome == .confirmed)
        let rolledBack = try push(ExampleBundle(), options: options)
        #expect(rolledBack.played.error == .notInTrial && left(rolledBack))
    }

    @Test("a required version is compared with the version in the other slot during a trial")
    func comparesTheVersionBeforeATrial() throws {
        let bundle = ExampleBundle(requires: RequiredVersion("1.0.5"))
        let refused = try push(bundle, onTrial: true, before: "1.0.4")
        #expect(
            refused.played.error == .requiresNewer && left(refused), "\(String(describing: refused.played.outcome))")
        #expect(try push(bundle, onTrial: true, before: "1.0.5").played.report?.outcome == .confirmed)
    }

    @Test("a required version is unchecked during a trial if the other slot is empty or has no readable version")
    func cannotCheckTheVersionBeforeATrial() throws {
        let bundle = ExampleBundle(requires: RequiredVersion("1.0.5"))
        for before in [nil, "first"] {
            let refused = try push(bundle, onTrial: true, before: before)
            #expect(refused.played.error == .targetUnchecked && left(refused))
            let accepted = try push(
                bundle, options: UpdateOptions(acceptsUncheckedTarget: true), onTrial: true, before: before)
            #expect(accepted.played.report?.outcome == .confirmed && accepted.played.report?.unchecked == ["requires"])
        }
    }

    @Test("the board is requested again after the link broke during the first request")
    func asksForTheBoardAgain() throws {
        let result = try push(ExampleBundle(), losses: 1)
        #expect(result.played.report?.outcome == .confirmed, "\(String(describing: result.played.outcome))")
        #expect(result.played.frames.count { $0.group == 0 && $0.command == 7 } == 2)
        #expect(try push(ExampleBundle(), board: "other", losses: 1).played.error == .wrongProduct)
    }

    @Test("a plain MCUboot image is sent to a device that does not report its board")
    func acceptsAPlainImage() throws {
        let image = try ExampleImage.make()
        let slots = PlayedSlots(
            running: [0: PlayedSlots.Image(digest: [UInt8](repeating: 1, count: 32), version: "1.0.0")],
            known: [image.fileDigest.bytes: image.listed()])
        let played = PlayedDevice(.push([SMPImage(image)], UpdateOptions())) { frame, _ in slots.answer(frame) }
        #expect(played.report?.outcome == .confirmed && played.report?.unchecked == [])
    }
}

/// A bundle of an MCUboot image of version 1.1.0.
struct ExampleBundle: Sendable, CustomTestStringConvertible {
    var product = "demo"
    var version = "1.1.0"
    var counter: UInt32 = 0
    /// The counter in the image's protected TLVs.
    var imageCounter: UInt32?
    var hardware: ClosedRange<UInt16>?
    var minimumBattery: UInt8?
    var requires: RequiredVersion?

    var testDescription: String { "\(product), counter \(counter)" }

    func verified() throws -> VerifiedBundle {
        let key = try PrivateKey(seed: [UInt8](repeating: 5, count: 32))
        var layout = MCUbootLayout(version: try #require(MCUbootImage.Version("1.1.0")), headerSize: 32)
        layout.padsHeader = true
        layout.securityCounter = imageCounter
        let image = try MCUbootSigner(key: key).sign([UInt8](repeating: 9, count: 2000), as: layout)
        let manifest = try Manifest(
            imageFormat: .mcuboot, imageSize: UInt32(image.count), securityCounter: counter, created: 0,
            imageDigest: SHA256.digest(of: image), version: #require(SemanticVersion(version)),
            product: #require(ProductName(product)), hardware: hardware.flatMap { HardwareRevisions(ranges: [$0]) },
            minimumBattery: minimumBattery, requires: requires)
        let signature = try #require(
            BundleSignature(.ed25519, keyID: key.publicKey.id, signature: key.sign(manifest.bytes)))
        let bundle = try SignedBundle(
            envelope: Envelope(manifest: manifest, signatures: [signature]), image: image)
        return try Verifier(trust: TrustStore([key.publicKey])).verify(bundle)
    }
}
