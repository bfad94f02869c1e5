import Testing

/// Streams of liblzma, and the images that they encode.
///
/// The streams with a dictionary were made with `lzma_raw_encoder` of liblzma 5.4.1: LZMA_FILTER_LZMA2 with the options of preset 6, but
/// lc = lp = pb = 0, nice_len = 64, mf = LZMA_MF_BT4, `preset_dict` = base + image[0 ..< from], and `dict_size` = base + image;
/// `lzma_code(LZMA_SYNC_FLUSH)` after every 16384 bytes of the image. The stream without a dictionary was made with
/// `xz --format=raw --lzma2=lc=0,lp=0,pb=0`, without the last byte, which is the end mark.
enum EncodedVectors {
    struct Vector: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var image: [UInt8]
        /// The offset in the image at which the stream starts.
        var from: Int
        var base: [UInt8]
        var stream: [UInt8]
    }

    /// The running image.
    static let base = program(count: 18000, seed: 1)

    /// The new image: changed bytes, an insertion, new code at the end, and bytes that cannot be compressed.
    static let image: [UInt8] = {
        var image = base
        for place in stride(from: 0, to: image.count, by: 997) { image[place] ^= 0x5A }
        image.insert(contentsOf: program(count: 12, seed: 2), at: 1000)
        var generator = SeededGenerator(seed: 4)
        let noise = (0..<100).map { _ in UInt8(truncatingIfNeeded: generator.next()) }
        return image + program(count: 1000, seed: 3) + noise
    }()

    /// Returns bytes with the structure of machine code: words of four bytes with six random bits.
    static func program(count: Int, seed: UInt64) -> [UInt8] {
        var generator = SeededGenerator(seed: seed)
        return Array(
            (0..<(count + 3) / 4).flatMap { _ -> [UInt8] in
                let number = generator.next()
                return [UInt8(number & 7) << 4, UInt8(number >> 8 & 3), 0x20 | UInt8(number >> 16 & 1), 0xE5]
            }.prefix(count))
    }

    static let all = deltas + [alone, withoutDictionary]

    private static func delta(_ from: Int, _ hex: String) -> Vector {
        Vector(testDescription: "delta from \(from)", image: image, from: from, base: base, stream: bytes(hex))
    }

    /// The base is not used, but the first 17000 bytes of the image are.
    static let alone = Vector(
        testDescription: "compressed from 17000", image: image, from: 17000, base: [],
        stream: bytes(
            """
            c0083f028100009d11afc793fd87d26463a6640540041af1ed17b3c6b35b21a7101e6cecc636ca97c35530f9fa2149c691728215777ac0480d1bf58927d3
            d520f663e5c17180f7f2fe2292eb1cfcc9c87318539d834dbfb38d7b1de731b65b1be6c164d3a607184c718806f8f825a80a7cd908b29d970920c2790067
            899ec5df0a82b226a557ed7d879d2df8eebcbadca1fd223b8017b9c2b381ff4e4ab035c1d63f07976ed9e0498206a0c99ee339c218e839ffe206161d177c
            7279c8c3bc7c58c5dc779a89f9fc44d742f3da731523e516dec0d84632caa33993221425ac3403ab51ca1c62b8dd0eb69524827b74a59908355d8faad947
            302af29eade87f45667cc7d0b65e9fb8ee5ad00246c81dd2634c53a2045b5d5de6bc223bc6505b72957ec0b907d327b65a0bc33cbaf9aba285fdccd70657
            bb698a57730cea96b9213b40276351efb21d0c3d9332ccafb5eb1c580b3faad822cc9dad7896888c15daff459cb6a154a99eb4ef7b1327a3d6954a02dbc6
            6a9b846fe0ecd62f8f57f0a59fa5da1ab3c885617495c6b8939bc85b58798a75f67ab1329e7b43552c4ee80263499e7e777799c343a1539da57c41bceb67
            a54b98d85ef160164a298becd32caf80753bd72634d566e353c38634684565b4b4e860735211b1afa631e0ada19c2987515cbcc76b6ae416bfa72bb49d7a
            46102544c0a8f8e88f558815d73ca9d81dd947f9830ff413c1ac5ab0c93553d834d05f9fea108fa04b04be15404ba480ed9f3d4691781743bcaf05ba0c14
            affea3237cec7a4d54ebcf97cd034725f92b60b57cc1f0b78b3c7a13b9675b8be26f145dd4720c5994c962ac34f170dc0ac2b71aa024218ec2bb3a9d9d1d
            d4e2ae0c005b3c503795652de365b77ee9f28076832ab7523227ea00
            """))

    static let withoutDictionary = Vector(
        testDescription: "1500 bytes by xz", image: Array(image.prefix(1500)), from: 0, base: [],
        stream: bytes(
            """
            e005db02110000250000dcc62747f21ecb8fa67af2d9c2fae8af3d41a67dcf26cf14a421cfb0c7ffc23442207d297d78429aee43ccf75d185d68cdb63995
            5289fca3ab7b68c9804149129f341bf08b221f691f56b25ad2679a82b8fcd4844a2ab0f96e24ff31050fbb098495e5f4c3935e06288f9a8119db3b83a760
            3c3b4bf04d8d2ac57ffa621ca63884741b8c378903f84b2272dca18527e6e3ce819086e23f3f2d5fcfe0260e9717054f630e2db05fc33c187f0fc3bf2cdc
            ea3ee1a60756428ccc1d4d8cd7f8facfc759eb928e02249c53e46622b8cb10bab057e5f7b4f47c83b2e2cdb21a2b3978abe3a8fcf40eb43c8d58106354ae
            54419596d36dda272f500c7a7fd3fb5047be593a7a53a1f6c689d0a2f1f02da941605dcad5752eb457a5d4c0856b0bf5f9c3cf5b742b62e63212dfccacdc
            1edfe46b6205314b00a7a3102ca62a5bf11b005d2a64013c91d3dc49665c49b259d89c0ea4ad8f5f8b75822411bc1a2d1bc3194dc86cc5d7684e21eea12b
            ccdc5718ac153b426ee5cf9d7239328753331c4b23cd392a611ae8175724d9b32c455ac254b2fb3b661d1dc71f27d83e7844f6cd1fd625bbf3bd7599a83a
            3dec47d3c3a4948bd14062c313d9b5ef7615b578ce141d91ae5f86d68c8b7d0c9ee78ea279a6b14bbbe37f2980338b48a10f5aade780d892ee5864ea9696
            3fd7972c7a7839775949f6e3d0880129dfaa7bc07ba2a08882a35d82c83a4fcaec2b813fb953721c
            """))

    static let deltas: [Vector] = [
        delta(
            0,
            """
            c03fff006300002560f7aa1d60ff83fd1cc45af06dedffc271f3be0a018b143106b9786e4aad4094e8d839e6735d462b429069527a475bc124dda756cd0a
            638b6af3d414f5db3748a04b536d3f05f640dceac05b76ad5e945de964372a04b24f240e29632b97382df700800aa7018800e51bb777900b90a932c0e383
            93e172d675cd73c86b9ba3047c2997b61e82149c9c3ed62cdc809bbbd32f3ac1dfab2ff156b10d2a3df3ce8a78d08658403ebcec4ad3ca8944968592f6e6
            dd5eac6398859dfe0b76e30b347977fcc5989b6ebc92bc763314e45b0964d4ac3210d868fec1a0b7f53466b47de02c9f55955ceda71d974595994d70e4fc
            6239a29f5d17b2d286a5e0a6ebd993b2ca2f9c21e491bdae4b2e57b25d816b2f594f40a6a6419ab6816bba51b59fa63342ca48af4b6a415ea41e822eb809
            9a765a58f2ecc52ebd4239c45193d70b8ef2af18c45c5f90711be9d7338fdf789df266cce8ece032e9ab53abe0b91fcd7e85983d91fbe6b0f52907698fa1
            87a88baad5ade7a8938c772a78b76c05246624bfdf66e8362dab69d7d0ca9b4b0ce0b83c550d28543875b3aa8fc9a009de8ce534b60fe8f3827723d061aa
            277e1daa674c5cb7e48ce56de0c370341c5bed4ab538c1d050a05cb3e85e53990aa8fc4f081c69b2f52bd466d8ea7c43c5bdeb3a05bed67f5e7af8f407af
            7ff8e41626efef72
            """),
        delta(
            1,
            """
            c03fff00620000bff7089fbffefffa09f49fbf78543cefd210a06ceda22259f1e70e81e3776a55848db898e331ccf679b2839b711b780cc49910e3d4e4aa
            b0d2bd10d512ed786a120df0810e2b0a134274555df8163a66d9d5be9bd9352ca2c6c4fd791a36b9bfed00800aa6018800e51ba0625220f2f28f1dc9bab7
            b2712df22e19d8bbc460d986bab6de81976e8c5419b50e14fc25250387314cd352825a77fabb88a6c7c1b03e39e57cecdeaf8f8a8ec26f62539f15735450
            2013044922c8d10733af0bb9c145d17b9d9dd792a645010ae0a374db0d90a3ac5c11d9b052013558f0752b49ec98ec5a0284f8083dd4c35670014581c057
            13ce07569629c74bbe72da2b7da2df15a456b4928e4a692a1659909d43fb67cff88af815448c5e1a5e4f9dba8e28b01298dde9afdc8941eef243d618c4e6
            a2fd73d32e6ed60ff50a6b57dd7c8d9549607fe7bf7ceb57514d4e283e05caa4fbe4ab567963ab7643d4296f750cae1b35d28bd2fefccc842c97b6f4ec6a
            9ca86e381e208d1a08ccf658d103e48f960339f3165d0ebae9f3dfdbfdd55c1c23651caf25e5855c9c998133c22fabc80596981d381f33441047f4045397
            603fd3826ea665b32cc5d69f03e38baec0eaaf0010b0068c29592c08563b37437ec19ae5edfaf04264ca3e03e440def7ce167299f17f1be6d56d5f4c5b93
            a45c0ee6db3693
            """),
        delta(
            255,
            """
            c03fff00630000bff7089fbffef51d840cd8ef7252ccdfb7e78c3a27c7118c06dc49f7e1473f6c98b27913b70483635d50b8d89c82dedd7204b6b83ea09c
            163583f01d75070503a1bfcef5a206a54b6084cdaf9270426ad6b716e94edcb723c100dbbff7d512a8d957008009a8018800dec8be16be181df60f617d0c
            7a068ea69dbb10e6543f5f5a47d933eba6cbfae1aa5455aa4190c94f848e2a22df99981e52647088a093433c2e64e45a653b11ec1c95f05abfc6ea6b222d
            fa71acb5ac2296447d0d2bb5c90504d69988326d1cfe09e53adac135835dcf8c9e0a40f1f6235c7c286f12d47244e67c3401e02c3b4c8718cbcac1f76dca
            83cec5eaad08938f12d8ea972fb15f2e2e6cf5d7a410bd75c1a3988cf30d5c4762b8b3aca41ba7da6bac573bb1015b3ea7638e858700b559aad7df82b8f1
            3353721f13df09cab53d1eb45fd6d8dedc8f6e610097c34ee22cca251a86f9b22abb8800cf13ffe9398560fdcbfeba4267202f0cc6df45fbc37660c2d5b3
            c438831c8f6584e855d15c253b16482706357e8e8d39c31f2868551ac6e6a8864c7081fcb74cf96d5b184f9828a9def4f98850b98f7759d22a5456690886
            2c0c2947dfabcd7891de9fe674c813fc996f0f1a847f5f8d033b9a82d055c4132ca2f1e4b04aee355a193799c60dd45b95e9b2fb52398c63c581233e62b2
            37afd3abdf8cc3ce
            """),
        delta(
            256,
            """
            c03fff00630000bff7089fbffef4fb850cd8ef7252ccdfb7e78c3a27c7118c06dc49f7e1473f6c98b27913b70483635d50b8d89c82dedd7204b6b83ea09c
            163583f01d75070503a1bfcef5a206a54b6084cdaf9270426ad6b716e94edcb723c100dbbff7d512beced7008009a7018800dec76696be181df60f617d0c
            7a068ea69dbb10e6543f5f5a47d933eba6cbfae1aa5455aa4190c94f848e2a22df99981e52647088a093433c2e64e45a653b11ec1c95f05abfc6ea6b222d
            fa71acb5ac2296447d0d2bb5c90504d69988326d1cfe09e53adac135835dcf8c9e0a40f1f6235c7c286f12d47244e67c3401e02c3b4c8718cbcac1f76dca
            83cec5eaad08938f12d8ea972fb15f2e2e6cf5d7a410bd75c1a3988cf30d5c4762b8b3aca41ba7da6bac573bb1015b3ea7638e858700b559aad7df82b8f1
            3353721f13df09cab53d1eb45fd6d8dedc8f6e610097c34ee22cca251a86f9b22abb8800cf13ffe9398560fdcbfeba4267202f0cc6df45fbc37660c2d5b3
            c438831c8f6584e855d15c253b16482706357e8e8d39c31f2868551ac6e6a8864c7081fcb74cf96d5b184f9828a9def4f98850b98f7759d22a5456690886
            2c0c2947dfabcd7891de9fe674c813fc996f0f1a847f5f8d033b9a82d055c4132ca2f1e4b04aee355a193799c60dd45b95e9b2fb52398c63c581233e62b2
            37afd3abdf8cc3ce
            """),
        delta(
            257,
            """
            c03fff00630000bff7089fbffef4d9860cd8ef7252ccdfb7e78c3a27c7118c06dc49f7e1473f6c98b27913b70483635d50b8d89c82dedd7204b6b83ea09c
            163583f01d75070503a1bfcef5a206a54b6084cdaf9270426ad6b716e94edcb723c100dbbff7d512d4c457008009a6018800dec60f16be181df60f617d0c
            7a068ea69dbb10e6543f5f5a47d933eba6cbfae1aa5455aa4190c94f848e2a22df99981e52647088a093433c2e64e45a653b11ec1c95f05abfc6ea6b222d
            fa71acb5ac2296447d0d2bb5c90504d69988326d1cfe09e53adac135835dcf8c9e0a40f1f6235c7c286f12d47244e67c3401e02c3b4c8718cbcac1f76dca
            83cec5eaad08938f12d8ea972fb15f2e2e6cf5d7a410bd75c1a3988cf30d5c4762b8b3aca41ba7da6bac573bb1015b3ea7638e858700b559aad7df82b8f1
            3353721f13df09cab53d1eb45fd6d8dedc8f6e610097c34ee22cca251a86f9b22abb8800cf13ffe9398560fdcbfeba4267202f0cc6df45fbc37660c2d5b3
            c438831c8f6584e855d15c253b16482706357e8e8d39c31f2868551ac6e6a8864c7081fcb74cf96d5b184f9828a9def4f98850b98f7759d22a5456690886
            2c0c2947dfabcd7891de9fe674c813fc996f0f1a847f5f8d033b9a82d055c4132ca2f1e4b04aee355a193799c60dd45b95e9b2fb52398c63c581233e62b2
            37afd3abdf8cc3ce
            """),
        delta(
            4097,
            """
            c03aa601d40000bff708bbbffefff9ba4b28842513254430d6ed94c2cefa198809d2cd195be36b89e3d50fbf38d4ea7afe98e2aa41650b45d638a2ef5127
            dcb70b0e551f33e668c3fc7fda391d1433b1a7f426c57a4390c3d8962a91a4e7612097632b7b6d61c26826b5c1fea3fa47fb9de4a5d768cb7cb64aedcdd1
            50681d0e645173b1e9a0d9b14ff430cabd743dfe5bcd7f58bc85cf0806877f641dfa94401d5a1dec3e56565b16cc07c3448637cd2b8e77429d08c922dce3
            3812d3ec5eedb3bd4e28ac502e5659bb01685fe8648dc0b1d4b0801f9322b081cf977a4ea3444a1fc2ef8c26ef85a1044b2d67f830234ac361e469326108
            7977164484853acb8aeb9ecb283aae904ba3457fd86e53cada49daadc276c250fdff337afaad81996ed5dc89541b5b0c51e034538bec420ebc211af9c978
            1b20fe357a207ce3ae65f5837cc5a379fb3c61696b6a313edfbc27062a5c348873361f8cdecb92cc72f90d1ecd8d3538add3381a0a9ebf52b7a3e54d4ad1
            47199a3f648263284daac936cf4a406d5e7f0f18603916a8290bbcfad31d526fd7833d7fde622de604c49ba24cbe16d5e0737d63b7d99b0ad6e253a7026a
            ce3f881579de345fb36a3c667dd43cc6b9202399a5d73efcca08b320cefccf4df65abf1135576a3753
            """),
        delta(
            16384,
            """
            c00aa701920000bff708bbbffedfaa2f3b6cd91e35cf1cc7fb2c58854a79f4ef600973b5c14deab6c90c06e8236577f5e0c73da604eb632e9ccef2e022d9
            74cedab610f7c68674a2f98f13d748912c3252f3168dda73f95c07e2fa560d6f3ee637fe5beab9b9c52e57c81f16440db42ea916fc5a75a3aeada2862f50
            9f554caa507d3c26b830794bd1e8f89ec5bd9433377c7f5581824711ab65b6e3fab0323bb368c1207b51ffa80d3b7b88cd98dcb278343bf9f2f5238c093d
            41196af440649642b44dfa971d35342ec4a0ea322dc7b90c08d36ed18cb7fdcd6aee7adb28690acc28b7b2c59a2527d2007048052bf5e6c89312f2a907cf
            0d7d1640bf313f3cb4b67c8333b08c4410b84dd63d7951609b57d2b44bc7f2352dea6fdd4a62f2701f22145934a0c575906b64e9173534b7500c9dcbbc71
            541e67e94df61645d3a3c69dddc265be60bc416a16d68549878247777b47084856400bc37bac4a78a496d3dbea44c3ce2936033e1dfc51ce5b6aa0900b22
            b4481201dfc36e14a6e456f6d3ce450554aa562b930eb42329d87c145b264c951efbf009b0
            """),
        delta(
            19012,
            """
            020063ca305f9eb9e15e52c90522f9bc3829513be4867a5491720bd00dfdef5ad14ea03d5d5d133497e208edfad12d710468a6386d142cf37ec78f6d6fbe
            035bd0f4a0108d2f097def6321849e22a670c2248758a1bcc6632006545caedff54ec32c97c3fd3902
            """),
        delta(
            19111,
            """
            02000002
            """),
    ]
}
