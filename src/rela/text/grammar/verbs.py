"""The verbs: principal parts on both sides, and what they ask for.

One line a verb: ``english | german | subject > object | flags``. English is ``base [past participle [gerund]]``; an
underscore joins a fixed particle (``turn_on``). German is the infinitive alone for weak verbs, else ``infinitive du
er past participle``; ``auf|machen`` has a separable prefix. An object of prepositional verbs is ``preposition
preposition+case class``, with ``-`` where English has no preposition. Flags: ``s`` perfect with *sein*, ``refl``
reflexive in German, ``st`` stative, ``mo`` momentary (no progressive), ``np`` no passive,
``di`` directed (an adverb of place would say where to).
"""

VERBS: dict[str, str] = {
    "intransitive": """
        sleep slept slept | schlafen schläfst schläft schlief geschlafen | being
        work | arbeiten | human
        laugh | lachen | human
        cry | weinen | human
        dance | tanzen | human
        sing sang sung | singen singst singt sang gesungen | human
        wait | warten | human
        play | spielen | being
        smoke | rauchen | human
        swim swam swum swimming | schwimmen schwimmst schwimmt schwamm geschwommen | being | s
        rest | aus|ruhen | human | refl
        hurry | beeilen | human | refl
        get_up got gotten getting | auf|stehen stehst steht stand gestanden | human | s
        wake_up woke woken | auf|wachen | being | s
        fall_asleep fell fallen | ein|schlafen schläfst schläft schlief geschlafen | being | s
        sit_down sat sat sitting | hin|setzen | human | refl
        lie_down lay lain lying | hin|legen | being | refl
        arrive | an|kommen kommst kommt kam gekommen | human | s
        disappear | verschwinden verschwindest verschwindet verschwand verschwunden | being | s
        smile | lächeln | human
        fight fought fought | kämpfen | human
        pray | beten | human
        whisper | flüstern | human
        cough | husten | human
        freeze froze frozen | frieren frierst friert fror gefroren | human
        jump | springen springst springt sprang gesprungen | being | s
    """,
    "self_moving": """
        depart | ab|fahren fährst fährt fuhr gefahren | traffic | s
        stop stopped stopped stopping | an|halten hältst hält hielt gehalten | traffic
        grow grew grown | wachsen wächst wächst wuchs gewachsen | plant | s
        bloom | blühen | plant
    """,
    "transitive": """
        see saw seen | sehen siehst sieht sah gesehen | being > visible | mo
        buy bought bought | kaufen | human > goods
        sell sold sold | verkaufen | human > goods
        read read read | lesen liest liest las gelesen | human > readable
        write wrote written | schreiben schreibst schreibt schrieb geschrieben | human > readable
        eat ate eaten | essen isst isst aß gegessen | being > edible
        drink drank drunk | trinken trinkst trinkt trank getrunken | human > drink
        find found found | finden findest findet fand gefunden | human > thing | mo
        look_for | suchen | human > thing
        lose lost lost | verlieren verlierst verliert verlor verloren | human > thing | mo
        love | lieben | human > being | st
        know knew known | kennen kennst kennt kannte gekannt | human > human | st np
        visit | besuchen | human > human
        meet met met | treffen triffst trifft traf getroffen | human > human | np
        hear heard heard | hören | being > being | mo
        understand understood understood | verstehen verstehst versteht verstand verstanden | human > account | mo
        carry | tragen trägst trägt trug getragen | human > container | di
        wear wore worn | tragen trägst trägt trug getragen | human > wearable
        wash | waschen wäschst wäscht wusch gewaschen | human > washable
        clean | putzen | human > cleanable
        open | auf|machen | human > opening
        close | zu|machen | human > opening
        lock | ab|schließen schließt schließt schloss geschlossen | human > opening
        turn_on | ein|schalten | human > device
        turn_off | aus|schalten | human > device
        repair | reparieren | human > machine
        build built built | bauen | human > building
        draw drew drawn | zeichnen | human > portrait
        cook | kochen | human > dish
        bake | backen bäckst bäckt backte gebacken | human > pastry
        cut cut cut cutting | schneiden schneidest schneidet schnitt geschnitten | human > solid
        order | bestellen | human > meal
        prepare | vor|bereiten bereitest bereitet bereitete bereitet | human > event
        invite | ein|laden lädst lädt lud geladen | human > human | di
        call | an|rufen rufst ruft rief gerufen | human > human
        pick_up | ab|holen | human > human
        take_along took taken | mit|nehmen nimmst nimmt nahm genommen | human > small | di
        throw_away threw thrown | weg|werfen wirfst wirft warf geworfen | human > small
        try_on | an|probieren | human > wearable
        put_on put put putting | an|ziehen ziehst zieht zog gezogen | human > clothing
        take_off took taken | aus|ziehen ziehst zieht zog gezogen | human > clothing
        pack | packen | human > container
        unpack | aus|packen | human > container
        clean_up | auf|räumen | human > room
        watch | beobachten | being > being
        sign | unterschreiben unterschreibst unterschreibt unterschrieb unterschrieben | human > paper
        translate | übersetzen übersetzt übersetzt übersetzte übersetzt | human > readable
        steal stole stolen | stehlen stiehlst stiehlt stahl gestohlen | human > belonging
        destroy | zerstören | human > building
        discuss | besprechen besprichst bespricht besprach besprochen | human > account
        describe | beschreiben beschreibst beschreibt beschrieb beschrieben | human > sight
        photograph | fotografieren | human > visible
        admire | bewundern | human > admired | st
        plan planned planned planning | planen | human > event
        organize | organisieren | human > event
        feed fed fed | füttern | human > animal
        catch caught caught | fangen fängst fängt fing gefangen | being > animal
        park | parken | human > vehicle
        hide hid hidden | verstecken | human > small
        need | brauchen | human > goods | st
        have had had | haben hast hat hatte gehabt | human > belonging | st np
        like | mögen magst mag mochte gemocht | human > meal | st np
        hate | hassen | human > human | st
        respect | respektieren | human > human | st
        greet | begrüßen | human > human
        hug hugged hugged hugging | umarmen | human > human
        marry | heiraten | human > human | np
        examine | untersuchen | human > being
        protect | beschützen | being > being
        save | retten | human > being
        wake woke woken | wecken | being > human
        teach taught taught | unterrichten | human > human
        ask | fragen | human > human
        disturb | stören | being > being
        praise | loben | human > human
        criticize | kritisieren | human > human
        water | gießen gießt gießt goss gegossen | human > plant
        plant | pflanzen | human > plant
        break broke broken | zerbrechen zerbrichst zerbricht zerbrach zerbrochen | human > object
        use | benutzen | human > tool
        rent | mieten | human > rentable
        enter | betreten betrittst betritt betrat betreten | being > inside
        leave left left | verlassen verlässt verlässt verließ verlassen | being > inside
        reach | erreichen | human > sight
        end | beenden | human > event
        interrupt | unterbrechen unterbrichst unterbricht unterbrach unterbrochen | human > event
        miss | verpassen | human > event
        cancel canceled canceled canceling | ab|sagen | human > event
        pay_for paid paid | bezahlen | human > meal
        chase | jagen | animal > animal
        bite bit bitten | beißen beißt beißt biss gebissen | animal > being
        paint | malen | human > portrait
        taste | probieren | human > meal
        check | prüfen | human > feature
        mention | erwähnen | human > feature
        estimate | schätzen | human > measure
    """,
    "dative": """
        help | helfen hilfst hilft half geholfen | human > human
        thank | danken | human > human
        follow | folgen | being > being | s di
        answer | antworten | human > human
        congratulate | gratulieren | human > human
        trust | vertrauen | human > human | st
        listen_to | zu|hören | human > human
        forgive forgave forgiven | vergeben vergibst vergibt vergab vergeben | human > human
        obey | gehorchen | human > human
    """,
    "ditransitive": """
        give gave given | geben gibst gibt gab gegeben | human > belonging
        show showed shown | zeigen | human > thing
        send sent sent | schicken | human > paper | di
        bring brought brought | bringen bringst bringt brachte gebracht | human > meal | di
        tell told told | erzählen | human > tale
        lend lent lent | leihen leihst leiht lieh geliehen | human > belonging
        offer | an|bieten bietest bietet bot geboten | human > meal
    """,
    "ditransitive_to": """
        explain | erklären | human > account
        recommend | empfehlen empfiehlst empfiehlt empfahl empfohlen | human > document
        return | zurück|geben gibst gibt gab gegeben | human > small | di
        introduce | vor|stellen | human > human
        sell sold sold | verkaufen | human > goods
    """,
    "prepositional": """
        wait | warten | human > for auf+acc human
        talk | sprechen sprichst spricht sprach gesprochen | human > about über+acc subject_matter
        think thought thought | denken denkst denkt dachte gedacht | human > of an+acc being
        laugh | lachen | human > about über+acc account
        dream | träumen | human > of von+dat belonging
        believe | glauben | human > in an+acc account | st
        ask | bitten bittest bittet bat gebeten | human > for um+acc meal
        remember | erinnern | human > - an+acc subject_matter | refl mo
        complain | beschweren | human > about über+acc meal | refl
        look_forward | freuen | human > to auf+acc event | refl
        take_care took taken | kümmern | human > of um+acc being | refl
        concentrate | konzentrieren | human > on auf+acc account | refl
        apologize | entschuldigen | human > for für+acc account | refl
        participate | teil|nehmen nimmst nimmt nahm genommen | human > in an+dat event
        speak spoke spoken | reden | human > with mit+dat human
        play | spielen | being > with mit+dat animal
        fear | fürchten | human > - vor+dat animal | refl st
        report | berichten | human > on über+acc event
        begin began begun beginning | an|fangen fängst fängt fing gefangen | human > with mit+dat event
        fall_in_love fell fallen | verlieben | human > with in+acc human | refl
        say_goodbye said said | verabschieden | human > to von+dat human | refl
    """,
    "locative": """
        live | wohnen | human > home
        stand stood stood | stehen stehst steht stand gestanden | being > inside
        sit sat sat sitting | sitzen sitzt sitzt saß gesessen | being > inside
        lie lay lain lying | liegen liegst liegt lag gelegen | being > inside
        stay | bleiben bleibst bleibt blieb geblieben | being > inside | s
    """,
    "motion": """
        go went gone | gehen gehst geht ging gegangen | human | s
        run ran run running | laufen läufst läuft lief gelaufen | human | s
        come came come | kommen kommst kommt kam gekommen | human | s
        walk_back | zurück|gehen gehst geht ging gegangen | human | s
    """,
    "travel": """
        hike | wandern | human | s
        fly flew flown | fliegen fliegst fliegt flog geflogen | human | s
        travel | reisen | human | s
        move | um|ziehen ziehst zieht zog gezogen | human | s
        drive drove driven | fahren fährst fährt fuhr gefahren | human | s
        come_back came come | zurück|kommen kommst kommt kam gekommen | human | s
    """,
    "clausal": """
        say said said | sagen | human
        think thought thought | denken denkst denkt dachte gedacht | human | st
        believe | glauben | human | st
        know knew known | wissen weißt weiß wusste gewusst | human | st
        hope | hoffen | human
        hear heard heard | hören | human | st
        notice | bemerken | human | st
        claim | behaupten | human
        explain | erklären | human
    """,
    "interrogative": """
        know knew known | wissen weißt weiß wusste gewusst | human | st
        ask | fragen | human
        wonder | fragen | human | refl
    """,
    "infinitival": """
        try | versuchen | human
        begin began begun beginning | beginnen beginnst beginnt begann begonnen | human
        forget forgot forgotten forgetting | vergessen vergisst vergisst vergaß vergessen | human | st
        promise | versprechen versprichst verspricht versprach versprochen | human
        decide | beschließen beschließt beschließt beschloss beschlossen | human
        plan planned planned planning | planen | human
        refuse | weigern | human | refl
        hope | hoffen | human
    """,
}
